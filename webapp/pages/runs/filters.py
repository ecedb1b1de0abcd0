"""The filter of the run explorer as its reader sees it: a form to fill in, and chips to take away."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runtally.runs.read import Names
from runtally.usage.filter import Outcome, Period, RunFilter
from webapp import formats
from webapp.charts.series import RANGE_NAMES
from webapp.pages.panel.narrowing import Chip
from webapp.pages.panel.panel import Choice
from webapp.pages.runs.views import HEADINGS, Column, RunsView
from webapp.zone import local

PERIODS = {**{Period(range_.value): name for range_, name in RANGE_NAMES.items()}, Period.ALL: "All time"}
OUTCOMES = {
    Outcome.SUCCESS: "Success",
    Outcome.FAILED: "Failed",
    Outcome.ERROR: "Error only",
    Outcome.TIMEOUT: "Timeout only",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One that can be chosen out of several."""

    value: str
    name: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class FilterForm:
    """What stands in the fields: as it was sent, so that a mistake can be mended; and what is wrong with it."""

    values: Mapping[str, str]
    errors: Mapping[str, str]
    projects: tuple[Option, ...]
    providers: tuple[Option, ...]
    models: tuple[Option, ...]
    statuses: tuple[Option, ...]
    experiments: tuple[Option, ...]
    columns: tuple[Option, ...]
    is_opened: bool
    """Whether something is wrong with the further fields; what they hold shows as chips."""

    def value(self, name: str) -> str:
        return self.values.get(name, "")


_FURTHER = (
    "trace", "experiment", "minCost", "maxCost", "minLatency", "maxLatency", "metadataKey", "metadataValue", "since",
    "until",
)  # fmt: skip


def form_of(view: RunsView, values: Mapping[str, str], errors: Mapping[str, str], names: Names) -> FilterForm:
    sought = view.sought
    providers = dict.fromkeys(provider for provider, _ in names.models)
    models = dict.fromkeys(model for provider, model in names.models if sought.provider in {None, provider})
    return FilterForm(
        values=values,
        errors=errors,
        projects=_options(names.projects, sought.project_id) if len(names.projects) > 1 else (),
        providers=_options({name: name for name in providers}, sought.provider),
        models=_options({name: name for name in models}, sought.model),
        statuses=_options({outcome.value: name for outcome, name in OUTCOMES.items()}, sought.status),
        experiments=_options({name: name for name in names.experiments}, sought.experiment_id),
        columns=tuple(Option(column.value, HEADINGS[column], column in view.columns) for column in Column),
        is_opened=any(name in errors for name in _FURTHER),
    )


def _options(names: Mapping[str, str], chosen: str | None) -> tuple[Option, ...]:
    """What is chosen is there, even if no run has it any more."""
    known = {**names, **({chosen: chosen} if chosen is not None and chosen not in names else {})}
    return tuple(Option(value, name, value == chosen) for value, name in known.items())


def periods_of(view: RunsView) -> tuple[Choice, ...]:
    sought = view.sought
    is_custom = sought.since is not None or sought.until is not None
    return tuple(
        Choice(
            "All" if period is Period.ALL else period.value,
            view.but(range=period, since=None, until=None).url(),
            not is_custom and period is sought.range,
        )
        for period in Period
    )


def chips_of(view: RunsView, projects: Mapping[str, str]) -> tuple[Chip, ...]:
    """What can be taken away; the only project that there is to see stays."""
    parts = list(_parts(view.sought))
    if view.sought.project_id is not None and len(projects) > 1:
        id_ = view.sought.project_id
        parts.insert(0, ("Project", projects.get(id_, id_), ("project_id",)))
    return tuple(Chip(label, value, view.without(*fields).url()) for label, value, fields in parts)


def _parts(sought: RunFilter) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for label, field in (
        ("Provider", "provider"),
        ("Model", "model"),
        ("Status", "status"),
        ("Experiment", "experiment_id"),
        ("Trace", "trace_id"),
        ("Run or trace", "search"),
    ):
        if value := getattr(sought, field):
            yield label, str(value), (field,)
    yield from _between(sought, "Cost", "min_cost_usd", "max_cost_usd", formats.money_exact)
    yield from _between(sought, "Latency", "min_latency_ms", "max_latency_ms", formats.duration)
    if sought.metadata_key:
        value = "is there" if sought.metadata_value is None else f"= {sought.metadata_value}"
        yield f"metadata.{sought.metadata_key}", value, ("metadata_key", "metadata_value")
    yield from _between(sought, "Time", "since", "until", _moment)


def _moment(at: datetime) -> str:
    return formats.minute(local(at))


def _between(
    sought: RunFilter, label: str, low: str, high: str, shown: Callable[[Any], str]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    least, most = getattr(sought, low), getattr(sought, high)
    if least is not None and most is not None:
        yield label, f"{shown(least)} to {shown(most)}", (low, high)
    elif least is not None:
        yield label, f"from {shown(least)}", (low,)
    elif most is not None:
        yield label, f"up to {shown(most)}", (high,)
