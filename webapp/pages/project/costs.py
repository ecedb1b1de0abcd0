"""The "What if" page: a project's cost on another model or at another day's prices, and reported compared with computed costs."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import ClassVar, NamedTuple
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access import keys, projects
from runtally.access.scopes import Scope, demand
from runtally.audit import ActorKind
from runtally.db.database import Connection
from runtally.errors import Forbidden, InvalidPrice
from runtally.models.project import Project
from runtally.runs.agent_figures import Drift, select_drifts
from runtally.runs.what_if import (
    ModelUsage,
    Supposition,
    Target,
    Writes,
    by_model,
    cost_of_all,
    read_alike,
    read_usage,
    suppose,
)
from runtally.units import FURTHER
from runtally.usage.snapshots import Snapshots
from runtally.usage.timeline import TimeSpan
from runtally.usage.window import Range
from webapp import formats
from webapp.form import Form
from webapp.pages.prices.frame import Names, day, names_of, time_in
from webapp.project_pages import BREAKDOWN
from webapp.rendering import Page, render
from webapp.report import Cell, Column, Figure, Head, Table, table_of
from webapp.security import signed_in
from webapp.view import View
from webapp.zone import last_30_days

COMPARED_RUNS = 10_000
MAX_ALTERNATIVES = 12
MAX_ROWS = 200

BLANK = Form()
NO_NAMES = Names()
WRITES = {"": "No change", Writes.FIVE_MINUTES: "5 minutes", Writes.ONE_HOUR: "1 hour"}
_QUERY = ("provider", "model", "at", "tier", "writes")
_LONGEST_TIER = 64

blueprint = Blueprint("project_costs", __name__)


class Costs(NamedTuple):
    """What the runs of a model cost, and would have cost; several models together have no provider."""

    provider: str
    model: str
    runs: int
    cost_usd: Decimal
    would_cost_usd: Decimal
    is_priced: bool = True
    is_rest: bool = False
    """Whether it is one of several models that are not told apart."""


class TwinBars(Struct, frozen=True):
    """Both costs as bars, in percent of the longest."""

    cost: float
    would_cost: float


class TwinKey(Struct, frozen=True):
    """What each of the bars is."""


class CostsPage(Page, frozen=True):
    """The "What if" page with its comparison and the drift of reported costs."""

    fragment: ClassVar[str] = "project/_project_costs.html"

    project: Project
    form: Form = BLANK
    names: Names = NO_NAMES
    figures: tuple[Figure, ...] = ()
    """What the last 30 days cost, and what they would have on the models that save most."""
    alternatives: Table | None = None
    supposed: str = ""
    table: Table | None = None
    left_out: int = 0
    is_more_left_out: bool = False
    """Whether those left out include models that are not told apart, and so not counted."""
    left_out_units: tuple[str, ...] = ()
    """The units that have no price on the supposition."""
    is_of_sums: bool = False
    """Whether sums of tokens are all that was read: too many runs, or runs that are not kept."""
    writes: ClassVar[tuple[tuple[str, str], ...]] = tuple(WRITES.items())
    drifts: Table | None = None

    @property
    def basis(self) -> str:
        return (
            "Estimated from token totals at base-tier prices, without further units"
            if self.is_of_sums
            else "Computed from the runs with their tiers, regions, hours and units"
        )

    @property
    def document_title(self) -> str:
        return f"What if · {self.project.name}"


@blueprint.get("/projects/<project_id:project_id>/costs")
@signed_in
async def costs(project_id: str) -> ResponseReturnValue:
    """Show the supposed cost of the last 30 days, and the difference between reported and computed costs."""
    _demand(project_id)
    now = services().clock()
    async with services().cells.for_project(project_id).database.session() as session:
        project = await projects.get(session, project_id)
    form = Form(values={name: (text,) for name, text in request.args.items()})
    is_asked = any(form.value(name) for name in _QUERY)
    async with (
        services().cells.snapshots(project_id) as snapshots,
        services().open_control(snapshots) as control,
    ):
        connection = snapshots.connection
        page = CostsPage(project, form, await names_of(control, snapshots, project_id))
        try:
            target = _target(request.args, now)
        except InvalidPrice as error:
            return await render(replace(page, form=form.refused(error)), 422)
        used = await _read_used(snapshots, control, project_id, now)
        found = await select_drifts(connection, project_id, last_30_days(now).since, COMPARED_RUNS)
        drifts = _drifts(found, await keys.names_of(control, [drift.key_id for drift in found if drift.key_id]))
    page = replace(page, is_of_sums=used.is_of_sums)
    # With very many models both take a while, in which other requests have their turn.
    if not is_asked:
        return await render(await asyncio.to_thread(_at_rest, page, used.models, drifts, now))
    supposed = await asyncio.to_thread(suppose, used.models, services().prices.book, target, project_id)
    return await render(_filled(replace(page, supposed=_words(target, form)), supposed, drifts))


class _Used(NamedTuple):
    models: Sequence[ModelUsage]
    is_of_sums: bool


async def _read_used(snapshots: Snapshots, control: Connection, project_id: str, now: datetime) -> _Used:
    """Read it from the runs, which have tiers and all units; from the sums of tokens where these cannot be read."""
    since = last_30_days(now).since
    found = await read_alike(snapshots, control, project_id, TimeSpan(since, now))
    if found is not None:
        return _Used(found, is_of_sums=False)
    return _Used(await read_usage(snapshots, project_id, since, now), is_of_sums=True)


def _demand(project_id: str) -> None:
    """Raises `Forbidden` also for who follows a link: prices of the project's own and discounts could be told from the amounts."""
    demand(actor(), Scope.METRICS_READ, project_id)
    if actor().kind is ActorKind.LINK:
        raise Forbidden


def _at_rest(page: CostsPage, used: Sequence[ModelUsage], drifts: Table, now: datetime) -> CostsPage:
    """Return the page before anything is asked: what each model in use would have cost for all runs.

    Models without any price are in neither cost, so that both are of the same runs.
    """
    models = by_model(used)
    priced = [model for model in models if model.unpriced < model.runs]
    told_apart = [model for model in priced if not model.is_rest]
    cost = sum((model.cost_usd for model in priced), Decimal(0))
    keys = {model.key for model in priced}
    supposed = _on_each([one for one in used if one.key in keys], told_apart, page.project.id, now)
    return replace(
        page,
        figures=tuple(_answer(told_apart, supposed, cost)),
        alternatives=_alternatives(supposed, cost, page.project.id),
        left_out=len(models) - len(priced),
        is_more_left_out=any(model.is_rest and model.key not in keys for model in models),
        drifts=drifts,
    )


_OnModel = tuple[Decimal, ModelUsage]


def _on_each(
    used: Sequence[ModelUsage], models: Sequence[ModelUsage], project_id: str, now: datetime
) -> list[_OnModel]:
    """Return what all that was used would have cost on each of these models, the cheapest first."""
    book, found = services().prices.book, list[_OnModel]()
    for model in models[:MAX_ALTERNATIVES]:
        would_usd = cost_of_all(used, book, Target(now, model.provider, model.model), project_id)
        if would_usd is not None:
            found.append((would_usd, model))
    return sorted(found, key=lambda each: each[0])


def _answer(used: Sequence[ModelUsage], supposed: Sequence[_OnModel], cost: Decimal) -> Iterator[Figure]:
    """Yield the actual cost, that on the cheapest model, and that on the cheapest of the provider with the highest cost."""
    cheaper = [(would, one) for would, one in supposed if would < cost]
    yield Figure("Actual cost", formats.money(cost), "" if cheaper else "no model in use would have cost less")
    if not cheaper:
        return
    would, cheapest = cheaper[0]
    yield Figure("Cheapest model in use", formats.money(would), f"{cheapest.model} saves {formats.money(cost - would)}")
    main = max(used, key=lambda one: one.cost_usd).provider
    of_main = next(((would, one) for would, one in cheaper if one.provider == main), None)
    if of_main and of_main[1] is not cheapest:
        would, one = of_main
        yield Figure(f"Cheapest of {main}", formats.money(would), f"{one.model} saves {formats.money(cost - would)}")


def _alternatives(supposed: Sequence[_OnModel], cost: Decimal, project_id: str) -> Table | None:
    """Return what all runs would have cost on each model, and what they did cost between them, the cheapest first."""
    if not supposed:
        return None
    money = formats.column_money([cost, *(would for would, _ in supposed)])
    apart = formats.column_money(would - cost for would, _ in supposed)
    longest = max([cost, *(would for would, _ in supposed)])
    rows: list[tuple[Decimal, ModelUsage | None]] = [*supposed]
    rows.insert(sum(would < cost for would, _ in supposed), (cost, None))

    def head(row: tuple[Decimal, ModelUsage | None]) -> Head:
        would, used = row
        length = _length(would, longest)
        if used is None:
            return Head(name="Actual cost", length=length, style="alternatives-actual")
        url = url_for(".costs", project_id=project_id, provider=used.provider, model=used.model)
        return Head(name=used.model, note=used.provider, length=length, url=url)

    def change(row: tuple[Decimal, ModelUsage | None]) -> Cell:
        would, used = row
        text = formats.NOTHING if used is None else _change(cost, would, apart)
        return Cell(text=text, tone="is-less" if would < cost else "")

    columns: tuple[Column[tuple[Decimal, ModelUsage | None]], ...] = (
        Column("Cost", lambda row: money(row[0]), "number"),
        Column("Change", change, "number", "prices-change"),
    )
    return table_of("Model", head, columns, rows)


def _target(query: Mapping[str, str], now: datetime) -> Target:
    """Read the target of the supposition. Raises `InvalidPrice`."""
    provider, model = (query.get(name, "").strip() or None for name in ("provider", "model"))
    if (provider is None) != (model is None):
        name = "provider" if provider is None else "model"
        raise InvalidPrice.at(name, "Give provider and model, or neither for each model's own price.")
    tier, writes = (query.get(name, "").strip().lower() for name in ("tier", "writes"))
    if len(tier) > _LONGEST_TIER or writes not in WRITES:
        why = "Enter a service tier such as batch, and 5m or 1h for cache writes, or leave them empty."
        raise InvalidPrice.at("tier" if writes in WRITES else "writes", why)
    at = time_in(query.get("at", ""), "at") or now
    return Target(at, provider, model, tier or None, Writes(writes) if writes else None)


def _words(target: Target, form: Form) -> str:
    on = f"on {target.provider} {target.model}" if target.model else "on the same models"
    prices = f"the prices of {day(target.at)}" if form.value("at") else "today's prices"
    tier = f" at service tier {target.tier}" if target.tier else ""
    writes = f", with cache writes of {WRITES[target.writes]}" if target.writes else ""
    return f"{on}{tier}{writes}, at {prices}"


def _filled(page: CostsPage, supposed: tuple[Supposition, ...], drifts: Table) -> CostsPage:
    known = [
        Costs(used.provider, used.model, used.runs, used.cost_usd, would, used.unpriced < used.runs, used.is_rest)
        for used, would in ((one.used, one.would_cost_usd) for one in supposed)
        if would is not None
    ]
    units = [name for one in supposed if one.would_cost_usd is not None for name in one.unpriced_units]
    return replace(
        page,
        table=_table(known, page.project.id) if known else None,
        left_out=len(supposed) - len(known),
        is_more_left_out=any(one.used.is_rest and one.would_cost_usd is None for one in supposed),
        left_out_units=tuple(dict.fromkeys(FURTHER[name].label if name in FURTHER else name for name in units)),
        drifts=drifts,
    )


def _table(known: Sequence[Costs], project_id: str) -> Table:
    """Return both costs of each model, and of all; bars of several models would dwarf those of each."""
    total, told_apart = _sum_of("All", known), [row for row in known if not row.is_rest]
    listed, others = told_apart[:MAX_ROWS], told_apart[MAX_ROWS:]
    not_told = [row for row in known if row.is_rest]
    rest = [*others, *not_told]
    # The breakdown has the others after as many models as are listed here.
    rest_url = View(project_id, Range.MONTH, report=BREAKDOWN).with_own(page="2").url
    longest = max((max(row.cost_usd, row.would_cost_usd) for row in listed), default=Decimal(0))
    cost, would_cost = formats.column_money([total.cost_usd]), formats.column_money([total.would_cost_usd])
    apart = formats.column_money(row.would_cost_usd - row.cost_usd for row in (total, *known))

    def bars(row: Costs) -> str | Cell:
        lengths = _length(row.cost_usd, longest), _length(row.would_cost_usd, longest)
        return Cell(drawn=TwinBars(*lengths)) if row.provider else ""

    def change(row: Costs) -> str:
        return _change(row.cost_usd, row.would_cost_usd, apart) if row.is_priced else formats.NOTHING

    columns: tuple[Column[Costs], ...] = (
        Column(TwinKey(), bars, "fold", "twin"),
        Column("Runs", lambda row: formats.count(row.runs)),
        Column("Cost", lambda row: cost(row.cost_usd) if row.is_priced else "no price", "number"),
        Column("Would have cost", lambda row: would_cost(row.would_cost_usd), "number"),
        Column("Change", change, "number", "prices-change"),
    )
    name = "All others" if not_told else f"{formats.count(len(rest))} others"
    rows = [*listed, *([_sum_of(name, rest)] if rest else [])]

    def head(row: Costs) -> Head:
        return Head(name=row.model, note=row.provider, url=None if row.provider or row is total else rest_url)

    return table_of("Model", head, columns, rows, total)


def _sum_of(name: str, rows: Sequence[Costs]) -> Costs:
    cost = sum((row.cost_usd for row in rows), Decimal(0))
    would = sum((row.would_cost_usd for row in rows), Decimal(0))
    return Costs("", name, sum(row.runs for row in rows), cost, would)


def _change(before: Decimal, after: Decimal, write: formats.Write = formats.money) -> str:
    change = formats.change(after, before)
    size = formats.money_apart(after - before, write)
    return f"{size} ({change.arrow}{change.text})" if change and change.arrow else size


def _length(amount: Decimal, longest: Decimal) -> float:
    return round(float(amount / longest * 100), 2) if longest else 0.0


def _drifts(drifts: Sequence[Drift], names: Mapping[UUID, str]) -> Table:
    reported = formats.column_money(drift.reported_usd for drift in drifts)
    computed = formats.column_money(drift.computed_usd for drift in drifts)
    apart = formats.column_money(drift.computed_usd - drift.reported_usd for drift in drifts)
    columns: tuple[Column[Drift], ...] = (
        Column("Client", lambda row: row.client or (names[row.key_id] if row.key_id else formats.NOTHING)),
        Column("Runs", lambda row: formats.count(row.runs)),
        Column("Reported", lambda row: reported(row.reported_usd), "number"),
        Column("Computed", lambda row: computed(row.computed_usd), "number"),
        Column("Difference", lambda row: _change(row.reported_usd, row.computed_usd, apart), "number", "prices-change"),
    )
    return table_of("Model", lambda one: Head(name=one.model, note=one.provider), columns, drifts)
