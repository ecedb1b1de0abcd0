"""The labels of dimensions and their values. Pure."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from runtally.usage.deleted_queries import DeletedCosts
from runtally.usage.dimensions import (
    DIMENSIONS,
    ERROR_CODE,
    EXPERIMENT,
    KEY,
    METADATA,
    MODEL,
    NO_VALUE,
    OTHER,
    PROJECT,
    PROVIDER,
    REGION,
    SERVICE_TIER,
    SESSION,
    STATUS,
    TAGS,
    TRACE,
    USER,
    Dimension,
)
from runtally.usage.filter import Outcome, RunFilter
from webapp import formats

NO_VALUE_NAME = "(none)"
OTHER_NAME = "Other"
OUTCOMES = {
    Outcome.SUCCESS: "Success",
    Outcome.FAILED: "Failed",
    Outcome.ERROR: "Error",
    Outcome.TIMEOUT: "Timeout",
}
_LABELS = {
    PROJECT: "Project",
    PROVIDER: "Provider",
    MODEL: "Model",
    STATUS: "Status",
    ERROR_CODE: "Error",
    EXPERIMENT: "Experiment",
    KEY: "Key",
    SERVICE_TIER: "Service tier",
    REGION: "Region",
    TRACE: "Trace",
    SESSION: "Session",
    USER: "User",
    TAGS: "Tag",
}
_MOST_MONTHS = 3
_PLURALS = {STATUS: "Statuses"}
NOT_IN_CHARTS = frozenset({TRACE})
"""Dimensions with too many values for a chart; only tables group by them."""


def label_of(dimension: Dimension) -> str:
    """Return the label of a dimension, such as "Model", or the metadata key unchanged."""
    return _LABELS.get(dimension) or dimension.name.removeprefix(METADATA)


def is_built_in(dimension: Dimension) -> bool:
    """Return whether the dimension is built in, and not a metadata key."""
    return dimension in _LABELS


def heading_of(dimension: Dimension) -> str:
    """Return the heading of a list of its values."""
    return _PLURALS.get(dimension) or (f"{_LABELS[dimension]}s" if dimension in _LABELS else label_of(dimension))


def in_sentence(dimension: Dimension) -> str:
    """Return the label in the form that follows "by": "model", or the metadata key unchanged."""
    return _LABELS[dimension].lower() if dimension in _LABELS else label_of(dimension)


def value_name(dimension: Dimension, value: str, names: Mapping[str, str] | None = None) -> str:
    """Return what a value is called; `names` has those of keys, by their id."""
    if value in {NO_VALUE, OTHER}:
        return NO_VALUE_NAME if value == NO_VALUE else OTHER_NAME
    if dimension == STATUS and value in set(Outcome):
        return OUTCOMES[Outcome(value)]
    return (names or {}).get(value, value)


def not_counted(costs: DeletedCosts) -> str:
    """Say what sums over all projects lack of projects that were deleted; nothing where that is nothing."""
    if not costs:
        return ""
    named = [f"{formats.money(usd)} of {formats.month(month)}" for month, usd in costs.items()]
    if len(named) > _MOST_MONTHS:
        named = [
            f"{formats.money(sum(costs.values(), Decimal(0)))} of {formats.month(min(costs))} to {formats.month(max(costs))}"
        ]
    return f"Not counted: {' and '.join(named)}, spent by projects that were deleted since."


class FilterPart(NamedTuple):
    """A condition of a filter in words, and the filter without it."""

    label: str
    value: str
    rest: RunFilter


def parts_of(run_filter: RunFilter, names: Mapping[str, str] | None = None) -> Iterator[FilterPart]:
    """Yield what a filter keeps, the project and the time aside, in the order of the form."""
    kept = set(run_filter.dimensions)
    keys = [dimension for dimension in run_filter.dimensions if dimension.metadata_keys]
    for dimension in (*(dimension for dimension in DIMENSIONS.values() if dimension in kept), *keys):
        value = run_filter.value_of(dimension)
        if value is not None:
            shown = value_name(dimension, value, names)
            yield FilterPart(label_of(dimension), shown, run_filter.without_dimension(dimension))
    if run_filter.search is not None:
        yield FilterPart("Run or trace", run_filter.search, run_filter.without("search"))
    yield from _between(run_filter, "Cost", "min_cost_usd", "max_cost_usd")
    yield from _between(run_filter, "Latency", "min_latency_ms", "max_latency_ms")
    if run_filter.metadata_key is not None:
        value = "is set" if run_filter.metadata_value is None else run_filter.metadata_value
        yield FilterPart(run_filter.metadata_key, value, run_filter.without("metadata_key", "metadata_value"))


def _between(run_filter: RunFilter, label: str, low: str, high: str) -> Iterator[FilterPart]:
    least, most = getattr(run_filter, low), getattr(run_filter, high)
    rest = run_filter.without(low, high)
    if least is not None and most is not None:
        yield FilterPart(label, f"{_shown(least)} to {_shown(most)}", rest)
    elif least is not None:
        yield FilterPart(label, f"from {_shown(least)}", rest)
    elif most is not None:
        yield FilterPart(label, f"up to {_shown(most)}", rest)


def _shown(limit: Any) -> str:  # noqa: ANN401  # Dollars, or milliseconds.
    return formats.money_exact(limit) if isinstance(limit, Decimal) else formats.duration(limit)
