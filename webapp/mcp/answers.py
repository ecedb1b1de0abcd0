"""Answers of the MCP tools: few rows, exact amounts as text, and only what the actor may read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from runtally.access import projects
from runtally.access.scopes import NameMask, Scope, demand, may
from runtally.audit import Actor
from runtally.budgets.queries import get_use
from runtally.budgets.spending import BudgetState, read_states
from runtally.budgets.use import Use
from runtally.clock import Clock
from runtally.db import turns
from runtally.db.database import READ_SECONDS, Database
from runtally.errors import InvalidFilter, NotFound, ProjectNotInferred
from runtally.fields import camel
from runtally.money import from_pico, plain
from runtally.names import LiveNames
from runtally.pricing.book import LivePrices
from runtally.pricing.cost import MILLION
from runtally.pricing.rates import per_text, usd_per_units
from runtally.runs.cost_lines import LINE, NAMES, LineSum, measured, read_cost_lines
from runtally.units import FURTHER, TOKEN_KINDS
from runtally.usage import filter as filters
from runtally.usage import masking
from runtally.usage.dimensions import (
    DIMENSIONS,
    ERROR_CODE,
    METADATA,
    MODEL,
    OTHER,
    OTHER_NAME,
    PROVIDER,
    SESSION,
    STATUS,
    Dimension,
    dimension_named,
)
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.groups.groups import GroupAnswer, Sums, read_groups
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.memo import DayMemo
from runtally.usage.plan import Question
from runtally.usage.snapshots import Snapshots
from runtally.usage.timeline import BucketWidth, Timeline
from runtally.usage.totals import Totals
from runtally.usage.window import NamedRange

Answer = dict[str, Any]

MAX_ROWS = 100
MAX_DIMENSIONS = 3


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers questions over a database; each takes the actor who asks, and raises `RuntallyError`."""

    database: Database
    prices: LivePrices
    clock: Clock
    names: LiveNames

    async def list_projects(self, actor: Actor) -> Answer:
        async with self.database.session() as session:
            found = await projects.list_all(session)
        return _answer(
            projects=[
                {"id": one.id, "name": one.name, "isHidden": one.archived_at is not None}
                for one in found
                if may(actor, Scope.METRICS_READ, one.id)
            ]
        )

    async def usage(
        self, actor: Actor, run_filter: RunFilter, by: Sequence[str], reach: NamedRange, limit: int
    ) -> Answer:
        run_filter = run_filter.replace(project_id=run_filter.project_id or actor.project_id)
        await self._demand(actor, Scope.METRICS_READ, run_filter.project_id)
        dimensions = [_dimension(name) for name in by if name != LINE]
        if LINE in by:
            return await self._lines(run_filter, dimensions, reach, limit)
        return await self._groups(run_filter, dimensions, reach, limit)

    async def dearest_sessions(self, actor: Actor, run_filter: RunFilter, reach: NamedRange, limit: int) -> Answer:
        project_id = self._project(actor, run_filter.project_id)
        await self._demand(actor, Scope.RUNS_READ, project_id)
        return await self._groups(run_filter.replace(project_id=project_id), [SESSION], reach, limit, has_value=True)

    async def errors(self, actor: Actor, run_filter: RunFilter, reach: NamedRange, limit: int) -> Answer:
        project_id = self._project(actor, run_filter.project_id)
        await self._demand(actor, Scope.METRICS_READ, project_id)
        failed = run_filter.replace(project_id=project_id, status=run_filter.status or Outcome.FAILED)
        return await self._groups(failed, [STATUS, ERROR_CODE, PROVIDER, MODEL], reach, limit, rank_by="runs")

    async def price(self, actor: Actor, provider: str, model: str, project_id: str | None, input_tokens: int) -> Answer:
        project_id = project_id or actor.project_id
        if project_id is not None:
            demand(actor, Scope.METRICS_READ, project_id)
        await self.prices.refresh()
        price = self.prices.book.price_for(provider, model, self.clock(), input_tokens, project_id)
        if price is None:
            raise NotFound("No price in force has this name; ask for it as runs name provider and model.")
        return _answer(
            provider=price.provider,
            model=price.model,
            is_estimate=price.estimated,
            above_input_tokens=price.above_input_tokens,
            effective_from=price.effective_from,
            effective_to=price.effective_to,
            percent_off=price.percent_off,
            usd_per_request=from_pico(price.request_pico),
            usd_per_million_tokens={
                camel(kind.rate): plain(from_pico(pico * MILLION))
                for kind in TOKEN_KINDS
                if (pico := price.rates[kind]) is not None
            },
            usd_per_unit={
                name: {"usd": plain(usd_per_units(FURTHER[name], pico)), "per": per_text(FURTHER[name])}
                for name, pico in price.rates.further.items()
            },
            variants=[variant.text for variant in price.variants],
        )

    async def budget(self, actor: Actor, project_id: str | None) -> Answer:
        project_id = self._project(actor, project_id)
        await self._demand(actor, Scope.METRICS_READ, project_id)
        async with self.database.snapshot(READ_SECONDS) as connection:
            use = await get_use(connection, project_id, self.clock())
            states = await read_states(connection, project_id, self.clock(), self.names)
        of_month = {} if use is None else _of_month(use)
        return _answer(project_id=project_id) | of_month | {"budgets": [_state(state) for state in states]}

    async def _groups(  # noqa: PLR0913  # What says which groups has its name at the call.
        self,
        run_filter: RunFilter,
        by: Sequence[Dimension],
        reach: NamedRange,
        limit: int,
        *,
        rank_by: str = "cost_usd",
        has_value: bool = False,
    ) -> Answer:
        """Answer with the groups that rank highest; with `has_value` without the runs that have none."""
        timeline = _timeline(reach, now := self.clock())
        question = Question(timeline, run_filter, tuple(by), limit=limit + has_value, rank_by=rank_by)
        async with self.database.snapshot(READ_SECONDS) as connection:
            groups = await read_groups([GroupRowReader.over(connection)], question)
        rows = [(group, one) for group, one in groups.groups.items() if OTHER not in group]
        if has_value:
            rows = [(group, row) for group, row in rows if None not in group]
        return _answer(
            project_id=run_filter.project_id,
            since=timeline.span.since,
            until=min(timeline.span.until, now),
            total=None if groups.question.is_overlapping else _totals(groups.total),
            rows=[_row(by, group, row) for group, row in rows[:limit]],
            all_other_rows=_others(groups),
        )

    async def _lines(self, run_filter: RunFilter, by: Sequence[Dimension], reach: NamedRange, limit: int) -> Answer:
        """Answer with the lines of the groups that cost most."""
        timeline = _timeline(reach, now := self.clock())
        async with self.database.snapshot(READ_SECONDS) as connection:
            cost_lines = await read_cost_lines(
                Snapshots.of(connection, DayMemo(0)),
                connection,
                Question(timeline, run_filter, tuple(by), limit=limit),
            )
        total = None if cost_lines.question.is_overlapping else cost_lines.total
        return _answer(
            project_id=run_filter.project_id,
            since=timeline.span.since,
            until=min(timeline.span.until, now),
            total=total and _answer(cost_usd=total.cost_usd, runs=total.runs, runs_without_cost=total.unpriced),
            rows=[
                {dimension.name: _shown(value) for dimension, value in zip(by, group, strict=True)} | _line(name, sums)
                for group, lines in cost_lines.groups.items()
                for name, sums in lines.sorted
            ],
        )

    def _project(self, actor: Actor, project_id: str | None) -> str:
        """Return the project that is asked about. Raises `ProjectNotInferred`."""
        found = project_id or actor.project_id
        if found is None:
            raise ProjectNotInferred("Name a project; list_projects has their ids.")
        return found

    async def _demand(self, actor: Actor, scope: Scope, project_id: str | None) -> None:
        """Raise `Forbidden` for what the actor may not read, and `NotFound` for a project that is not there."""
        demand(actor, scope, project_id)
        await self.names.refresh()
        masking.use(NameMask(self.names, actor))
        turns.use(actor.reader)
        if project_id is not None:
            async with self.database.session() as session:
                await projects.get(session, project_id)


def _timeline(reach: NamedRange, now: datetime) -> Timeline:
    return Timeline.whole(reach.span(now, BucketWidth.HOUR), now)


def _line(name: str, sums: LineSum) -> Answer:
    quantity = None if measured(name) is None else sums.quantity
    return _answer(line=name, name=NAMES[name], cost_usd=sums.amount_usd, quantity=quantity)


def _shown(value: str | None) -> str | None:
    return OTHER_NAME if value == OTHER else value


def filter_of(project_id: str | None, values: Mapping[str, str] | None) -> RunFilter:
    """Return the filter by values of dimensions, as the API has them. Raises `InvalidFilter`, which says what is wrong."""
    sent = values or {}
    names = [filters.NAMES[dimension.filter_field] for dimension in DIMENSIONS.values()]
    if unknown := [name for name in sent if name not in names and not name.startswith(METADATA)]:
        raise InvalidFilter(f"Nothing is filtered by {unknown[0]!r}; use {', '.join(names)} or {METADATA}<key>.")
    try:
        return RunFilter.parse(sent).replace(project_id=project_id)
    except InvalidFilter as error:
        raise InvalidFilter("; ".join(f"{detail.path} {detail.message}" for detail in error.details)) from None


def _dimension(name: str) -> Dimension:
    """Return the dimension of this name. Raises `InvalidFilter`."""
    found = dimension_named(name)
    if found is None:
        raise InvalidFilter(f"Usage is grouped by {', '.join(DIMENSIONS)}, {LINE} or metadata.<key>.")
    return found


def _row(by: Sequence[Dimension], group: Sequence[str | None], sums: Sums) -> Answer:
    return {dimension.name: value for dimension, value in zip(by, group, strict=True)} | _totals(sums.totals)


def _others(found: GroupAnswer) -> Answer | None:
    """Return the sums of the groups without a row."""
    other = next((sums for group, sums in found.groups.items() if OTHER in group), None)
    return None if other is None else {"name": OTHER_NAME, **_totals(other.totals)}


def _totals(totals: Totals) -> Answer:
    return _answer(
        cost_usd=totals.cost_usd,
        runs=totals.runs,
        errors=totals.errors,
        timeouts=totals.timeouts,
        runs_without_cost=totals.unpriced,
        runs_without_usage=totals.without_usage,
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        cached_input_tokens=totals.cached_input_tokens,
    )


def _of_month(use: Use) -> Answer:
    return _answer(
        month=f"{use.month.start:%Y-%m}",
        amount_usd=use.amount_usd,
        spent_usd=use.spent_usd,
        left_usd=use.left_usd,
        forecast_usd=use.forecast_usd,
        used_up_at=use.used_up_at,
        runs_without_cost=use.unpriced,
        is_minimum=use.is_minimum,
    )


def _state(state: BudgetState) -> Answer:
    terms = state.terms
    return _answer(
        dimension=terms.dimension or None,
        value=masking.shown_name(terms.project_id or None, terms.dimension, terms.value) or None,
        period=terms.period_name(state.now),
        amount_usd=terms.amount_usd,
        values=[
            _answer(
                value=spending.value or None,
                spent_usd=spending.spent_usd,
                runs_without_cost=spending.unpriced,
                is_minimum=bool(spending.or_more),
            )
            for spending in state.spendings[:MAX_ROWS]
        ],
        values_over=len(state.over),
        problem=state.problem or None,
    )


def _answer(**values: object) -> Answer:
    """Return the values under the names of the API; amounts are text, because a float would not have every digit."""
    return {camel(name).replace("Usd", "USD"): _plain(value) for name, value in values.items()}


def _plain(value: object) -> object:
    match value:
        case Decimal():
            return plain(value)
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        case Mapping() | str() | int() | float() | None:
            return value
        case list():
            return [_plain(item) for item in value]
        case _:
            return str(value)
