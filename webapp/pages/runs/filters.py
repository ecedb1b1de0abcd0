"""The filter of the run explorer as its reader sees it: a form to fill in, and chips to take away."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from runtally.runs.read import Names
from runtally.usage.filter import Outcome, Period, RunFilter
from webapp import formats
from webapp.addresses import path_to
from webapp.links import MINUTES
from webapp.pages.panel.narrowing import Chip
from webapp.pages.panel.ranges import Choice, RangeMenu, calendar_choices, range_menu
from webapp.pages.runs.views import HEADINGS, PERIODS, Column, RunsView
from webapp.ranges import Calendar, calendar_in
from webapp.zone import for_fields, in_utc

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
    hidden: tuple[tuple[str, str], ...]
    """What the address says besides: the time, and what the runs are sorted by."""
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


_FURTHER = ("provider", "errorCode", "experiment", "minCost", "maxCost", "minLatency", "maxLatency", "metadata")
_HIDDEN = ("range", "since", "until", "sort", "trace", "session", "user", "tags", "zone", "later")


def query_of(sent: Mapping[str, str], now: datetime) -> tuple[dict[str, str], Calendar | None]:
    """Read a query as a form sends it: times in UTC, a key of metadata with its value, and a calendar range as its times."""
    found = in_utc(sent)
    key, separator, value = found.pop("metadata", "").partition("=")
    if key or separator:
        found["metadataKey"] = key
        if separator:
            found["metadataValue"] = value
    calendar = calendar_in(found)
    if calendar is not None:
        span = calendar.span(now)
        del found["range"]
        found |= {"since": span.since.strftime(MINUTES), "until": span.until.strftime(MINUTES)}
    return found, calendar


def _values_of(query: Mapping[str, str]) -> Mapping[str, str]:
    """The other way: a query as the fields show it."""
    found = dict(for_fields(query))
    key, value = found.get("metadataKey", ""), found.get("metadataValue")
    return {**found, "metadata": key if value is None else f"{key}={value}"}


def _errors_of(errors: Mapping[str, str]) -> Mapping[str, str]:
    """Key and value of metadata are one field."""
    found = dict(errors)
    for name in ("metadataKey", "metadataValue"):
        if name in found:
            found["metadata"] = found.pop(name)
    return found


def form_of(view: RunsView, query: Mapping[str, str], errors: Mapping[str, str], names: Names) -> FilterForm:
    """Return the form with what a query says in its fields."""
    sought, values, errors = view.sought, _values_of(query), _errors_of(errors)
    providers = dict.fromkeys(provider for provider, _ in names.models)
    models = dict.fromkeys(model for provider, model in names.models if sought.provider in {None, provider})
    return FilterForm(
        values=values,
        errors=errors,
        hidden=tuple((name, values[name]) for name in _HIDDEN if values.get(name)),
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


def range_menu_of(view: RunsView, now: datetime) -> RangeMenu:
    sought = view.sought
    is_custom = view.calendar is None and (sought.since is not None or sought.until is not None)
    start = sought.since or sought.range.start(now) or now
    times = {"since": start.strftime(MINUTES), "until": (sought.until or now).strftime(MINUTES)}
    columns = view.query.get("column", ())
    rest = {name: value for name, value in view.query.items() if name != "column"}
    menu = range_menu(
        tuple(
            Choice(
                period.value,
                view.during(period).url(),
                view.calendar is None and not is_custom and period is sought.range,
            )
            for period in Period
            if period is not Period.ALL
        ),
        (
            *calendar_choices(view.calendar, lambda one: view.in_calendar(one, now).url()),
            Choice(PERIODS[Period.ALL], view.during(Period.ALL).url(), not is_custom and sought.range is Period.ALL),
        ),
        is_custom=is_custom,
        query={**rest, **times},
        action=path_to("runs.explorer"),
    )
    return replace(menu, hidden=(*menu.hidden, *(("column", column) for column in columns)))


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
        ("Error", "error_code"),
        ("Experiment", "experiment_id"),
        ("Trace", "trace_id"),
        ("Session", "session_id"),
        ("User", "user_id"),
        ("Tag", "tag"),
        ("Run or trace", "search"),
    ):
        if value := getattr(sought, field):
            yield label, str(value), (field,)
    yield from _between(sought, "Cost", "min_cost_usd", "max_cost_usd", formats.money_exact)
    yield from _between(sought, "Latency", "min_latency_ms", "max_latency_ms", formats.duration)
    if sought.metadata_key:
        value = "is set" if sought.metadata_value is None else sought.metadata_value
        yield sought.metadata_key, value, ("metadata_key", "metadata_value")


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
