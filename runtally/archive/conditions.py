"""Build the SQL of a filter over archived runs, as `usage.conditions` does for runs in the database. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from runtally.models.dimension import MAX_VALUE_LENGTH
from runtally.usage.dimensions import ERROR_CODE, SESSION, USER, Dimension, dimension_of_key
from runtally.usage.filter import Outcome, RunFilter


@dataclass(slots=True)
class Conditions:
    """Conditions and the values of their parameters."""

    parts: list[str] = field(default_factory=list)
    values: list[object] = field(default_factory=list)

    @classmethod
    def of(cls, run_filter: RunFilter, since: datetime | None = None, until: datetime | None = None) -> Self:
        """Return the conditions of a filter, and of a time whose end is exclusive."""
        return cls().add(run_filter).during(since, until)

    def add(self, run_filter: RunFilter) -> Self:
        """Add the conditions of a filter, without its time."""
        self.parts += (*_equal(self, run_filter), *_named(self, run_filter), *_numbers(self, run_filter))
        return self

    def during(self, since: datetime | None, until: datetime | None) -> Self:
        """Add a time; None leaves that side open, and `until` is exclusive."""
        if since is not None:
            self.parts.append(f"occurred_at >= {self.value(since, 'timestamptz')}")
        if until is not None:
            self.parts.append(f"occurred_at < {self.value(until, 'timestamptz')}")
        return self

    def value(self, value: object, kind: str = "text") -> str:
        """Add a value and return its placeholder."""
        self.values.append(value)
        return f"${len(self.values)}::{kind}"

    def path(self, key: object) -> str:
        """Add a key of metadata and return the placeholder of the way to it."""
        return self.value(_path(str(key)))

    @property
    def sql(self) -> str:
        return " AND ".join(self.parts) or "TRUE"


def value_sql(found: Conditions, dimension: Dimension) -> str:
    """SQL of the dimension's value, NULL for runs without one."""
    return dimension.value_sql(found.path)


def _path(*keys: str) -> str:
    # A JSON pointer, as in a path of DuckDB's own `*` stands for any key, and no key may be empty.
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)


def _equal(found: Conditions, run_filter: RunFilter) -> Iterator[str]:
    columns = {
        "project_id": run_filter.project_id,
        "provider": run_filter.provider,
        "model": run_filter.model,
        "trace_id": run_filter.trace_id,
        "experiment_id": run_filter.experiment_id,
        "key_id": None if run_filter.key_id is None else str(run_filter.key_id),
    }
    for name, value in columns.items():
        if value is not None:
            yield f"{name} = {found.value(value)}"
    if run_filter.search is not None:
        text = found.value(run_filter.search)
        yield f"(id = {text} OR trace_id = {text})"
    if run_filter.status is Outcome.FAILED:
        yield "status <> 'success'"
    elif run_filter.status is not None:
        yield f"status = {found.value(str(run_filter.status))}"


def _named(found: Conditions, run_filter: RunFilter) -> Iterator[str]:
    if run_filter.tag is not None:
        yield f"list_contains(tags, {found.value(run_filter.tag)})"
    for dimension in (ERROR_CODE, SESSION, USER):
        value = getattr(run_filter, dimension.filter_field)
        if value is not None:
            yield f"{dimension.sql} = {found.value(value)}"
    for key, value in run_filter.metadata:
        yield f"{value_sql(found, dimension_of_key(key))} = {found.value(value[:MAX_VALUE_LENGTH])}"
    yield from _metadata(found, run_filter)


def _metadata(found: Conditions, run_filter: RunFilter) -> Iterator[str]:
    key, value = run_filter.metadata_key, run_filter.metadata_value
    if key is None:
        return
    if value is None:
        yield f"list_contains(json_keys(metadata), {found.value(key)})"
        return
    # A key with dots is one key, or the way down to one.
    ways = [_path(key), *([_path(*key.split("."))] if "." in key else [])]
    same = " OR ".join(f"metadata ->> {found.value(way)} = {found.value(value)}" for way in ways)
    yield f"({same})"


def _numbers(found: Conditions, run_filter: RunFilter) -> Iterator[str]:
    bounds = (
        ("cost_usd >=", run_filter.min_cost_usd, "decimal(38, 12)"),
        ("cost_usd <=", run_filter.max_cost_usd, "decimal(38, 12)"),
        ("latency_ms >=", run_filter.min_latency_ms, "bigint"),
        ("latency_ms <=", run_filter.max_latency_ms, "bigint"),
    )
    for compared, bound, kind in bounds:
        if bound is not None:
            yield f"{compared} {found.value(bound, kind)}"
