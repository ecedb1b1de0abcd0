"""Build the SQL of a filter of runs, and of the rows that it keeps. Pure.

It has two parts: conditions that an index answers, and conditions that are tried run by run. They are apart because some
readers walk an index and stop after so many runs: a filter that hardly any run passes must not read a whole table for one
page. Archived runs have the same conditions in another dialect.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from runtally.models.dimension import MAX_VALUE_LENGTH
from runtally.usage.dimensions import (
    ERROR_CODE,
    MODEL,
    OTHER_NAME,
    PROVIDER,
    REGION,
    SERVICE_TIER,
    SESSION,
    USER,
    Dimension,
    dimension_of_key,
)
from runtally.usage.filter import Outcome, RunFilter
from runtally.usage.timeline import BucketRange, TimeSpan


@dataclass(slots=True)
class Conditions:
    """Conditions in Postgres' SQL, and the values of their parameters; `walked` are answered by an index, `kept` run by run."""

    walked: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    values: list[object] = field(default_factory=list)
    is_of_project: bool = True
    """Whether they name one project, so that one index is walked."""
    is_by_time: bool = False
    """Whether no index of names may lead to the runs, but that of their time alone."""

    @classmethod
    def of(cls, run_filter: RunFilter) -> Self:
        """Return the conditions of a filter, without its time range."""
        return cls().add(run_filter)

    def add(self, run_filter: RunFilter) -> Self:
        """Add the conditions of a filter, without its time range."""
        self.is_of_project = run_filter.project_id is not None
        if run_filter.project_id is not None:
            self.walked.append(f"project_id = {self.value(run_filter.project_id)}")
        self.walked += _indexed(self, run_filter)
        self.kept += _names(self, run_filter)
        self.kept += _dimensions(self, run_filter)
        self.kept += _numbers(self, run_filter)
        self.kept += _metadata(self, run_filter)
        return self

    def value(self, value: object, kind: str = "text") -> str:
        """Add a value and return its placeholder."""
        self.values.append(value)
        return f"${len(self.values)}::{kind}"

    def during(self, since: datetime | None, until: datetime | None) -> Self:
        """Add a time range; None leaves that side open, and `until` is exclusive."""
        if since is not None:
            self.walked.append(f"occurred_at >= {self.value(since, 'timestamptz')}")
        if until is not None:
            self.walked.append(f"occurred_at < {self.value(until, 'timestamptz')}")
        return self

    @property
    def walk(self) -> str:
        return _all(self.walked)

    @property
    def keep(self) -> str:
        return _all(self.kept)

    @property
    def sql(self) -> str:
        return _all((*self.walked, *self.kept))

    # What other dialects write in another way.

    def path(self, key: str) -> str:
        """Add a key of metadata, and return the placeholder of the way to it."""
        return self.value(key)

    def value_of(self, dimension: Dimension) -> str:
        """SQL of the dimension's value over the columns of runs, NULL for runs without one."""
        return dimension.value_sql(self.path)

    def each_of(self, values: str, name: str, *, has_any: bool) -> str:
        """SQL that joins each value of a list, and NULL for none; with `has_any` a blank one besides, and nothing for none."""
        if has_any:
            of_any = f"CASE WHEN cardinality({values}) > 0 THEN {values} || ''::text END"
            return f" CROSS JOIN LATERAL unnest({of_any}) AS {name} (value)"
        return f" LEFT JOIN LATERAL unnest({values}) AS {name} (value) ON TRUE"

    def has_tag(self, tag: str) -> str:
        return f"tags @> ARRAY[{self.value(tag)}]"

    def has_key(self, key: str) -> str:
        return f"metadata ? {self.value(key)}"

    def has_text(self, key: str, text: str) -> str:
        """Return the condition that a key has this text. A key with dots is one key, or the way down to one."""
        name, value = self.value(key), self.value(text)
        below = f" OR metadata #>> string_to_array({name}, '.') = {value}" if "." in key else ""
        return f"(metadata ->> {name} = {value}{below})"


_DUCKDB_KINDS = {"numeric": "decimal(38, 12)", "uuid": "text"}


class ArchiveConditions(Conditions):
    """Conditions on archived runs in the SQL of DuckDB, where a key is text, and metadata is JSON."""

    __slots__ = ()

    def value(self, value: object, kind: str = "text") -> str:
        return super().value(str(value) if kind == "uuid" else value, _DUCKDB_KINDS.get(kind, kind))

    def path(self, key: str) -> str:
        return self._way([key])

    def each_of(self, values: str, name: str, *, has_any: bool) -> str:
        of_any, of_none = (f"{values} || ['']", "[]") if has_any else (values, "[NULL]")
        return f" CROSS JOIN unnest(CASE WHEN len({values}) > 0 THEN {of_any} ELSE {of_none} END) AS {name} (value)"

    def has_tag(self, tag: str) -> str:
        return f"list_contains(tags, {self.value(tag)})"

    def has_key(self, key: str) -> str:
        return f"list_contains(json_keys(metadata), {self.value(key)})"

    def has_text(self, key: str, text: str) -> str:
        ways = [self.path(key), *([self._way(key.split("."))] if "." in key else [])]
        return f"({' OR '.join(f'metadata ->> {way} = {self.value(text)}' for way in ways)})"

    def _way(self, keys: Iterable[str]) -> str:
        # A JSON pointer, as in a path of DuckDB's own `*` stands for any key, and no key may be empty.
        return self.value("".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys))


def _all(conditions: Iterable[str]) -> str:
    return " AND ".join(conditions) or "TRUE"


def _indexed(conditions: Conditions, run_filter: RunFilter) -> Iterator[str]:
    if run_filter.trace_id is not None:
        yield f"trace_id = {conditions.value(run_filter.trace_id)}"
    if run_filter.experiment_id is not None:
        yield f"experiment_id = {conditions.value(run_filter.experiment_id)}"
    if run_filter.search is not None:
        text = conditions.value(run_filter.search)
        yield f"(id = {text} OR trace_id = {text})"
    if run_filter.status not in {None, Outcome.SUCCESS}:
        # Written as in the index of failed runs.
        yield "status <> 'success'"


def _names(conditions: Conditions, run_filter: RunFilter) -> Iterator[str]:
    if run_filter.provider is not None:
        yield _counted(conditions, PROVIDER, "provider", run_filter.provider)
    if run_filter.model is not None:
        yield _counted(conditions, MODEL, "model || ''" if conditions.is_by_time else "model", run_filter.model)
    # That it failed is known from the index.
    if run_filter.status not in {None, Outcome.FAILED}:
        yield f"status = {conditions.value(str(run_filter.status))}"


def _counted(conditions: Conditions, dimension: Dimension, column: str, value: str) -> str:
    """Return the condition that a run counts under this name, so that lists have the runs of which sums speak."""
    if value == OTHER_NAME:
        return f"{dimension.sql} = {conditions.value(value)}"
    # Written so that the index of models leads to them.
    return f"{column} = {conditions.value(value)} AND counted_as_other IS NOT TRUE"


def _dimensions(conditions: Conditions, run_filter: RunFilter) -> Iterator[str]:
    if run_filter.tag is not None:
        yield conditions.has_tag(run_filter.tag)
    for dimension in (ERROR_CODE, SERVICE_TIER, REGION, SESSION, USER):
        value = getattr(run_filter, dimension.filter_field)
        if value is not None:
            yield f"{conditions.value_of(dimension)} = {conditions.value(value)}"
    if run_filter.key_id is not None:
        yield f"key_id = {conditions.value(run_filter.key_id, 'uuid')}"
    for key, value in run_filter.metadata:
        yield f"{conditions.value_of(dimension_of_key(key))} = {conditions.value(value[:MAX_VALUE_LENGTH])}"


def _numbers(conditions: Conditions, run_filter: RunFilter) -> Iterator[str]:
    bounds = (
        ("cost_usd >=", run_filter.min_cost_usd, "numeric"),
        ("cost_usd <=", run_filter.max_cost_usd, "numeric"),
        ("latency_ms >=", run_filter.min_latency_ms, "bigint"),
        ("latency_ms <=", run_filter.max_latency_ms, "bigint"),
    )
    for compared, bound, kind in bounds:
        if bound is not None:
            yield f"{compared} {conditions.value(bound, kind)}"


def _metadata(conditions: Conditions, run_filter: RunFilter) -> Iterator[str]:
    key, text = run_filter.metadata_key, run_filter.metadata_value
    if key is not None:
        yield conditions.has_key(key) if text is None else conditions.has_text(key, text)


def runs_during(conditions: Conditions, run_filter: RunFilter, span: TimeSpan) -> str:
    """SQL of the runs of a filter in a span; more conditions may follow."""
    # One statement may read several spans: they share their values, but each has conditions of its own.
    own = Conditions(values=conditions.values, is_by_time=conditions.is_by_time)
    own.add(run_filter).during(span.since, span.until)
    # Where all projects are looked at, the projects lead to their runs, because there is no index over the time alone.
    runs = "runs" if own.is_of_project else "projects JOIN runs ON runs.project_id = projects.id"
    return f"{runs}\n   WHERE {own.walk} AND {own.keep}"


def of_models(found: Conditions, run_filter: RunFilter) -> str:
    """SQL of a filter with at most provider and model, over slices."""
    named = {"provider": run_filter.provider, "model": run_filter.model}
    conditions = (f"{name} = {found.value(value)}" for name, value in named.items() if value is not None)
    return " AND ".join(conditions) or "TRUE"


JOINED = """JOIN {rows} AS held
           ON held.project_id = {scope}
          AND held.grain = ranges.grain
          AND held.bucket >= ranges.since
          AND held.bucket < ranges.until"""


def stored_in(conditions: Conditions, stored: Sequence[BucketRange], rows: str, scope: str) -> str:
    """SQL of the rows of a table in these ranges of buckets."""
    joined = JOINED.format(rows=rows, scope=scope)
    return f"unnest({bucket_ranges(conditions, stored)}) AS ranges (grain, since, until)\n         {joined}"


def bucket_ranges(conditions: Conditions, stored: Sequence[BucketRange]) -> str:
    """SQL of the grains, starts and ends of ranges of buckets, to be unnested."""
    return ", ".join(
        (
            conditions.value([range_.grain.minutes for range_ in stored], "smallint[]"),
            conditions.value([range_.since for range_ in stored], "timestamptz[]"),
            conditions.value([range_.until for range_ in stored], "timestamptz[]"),
        )
    )
