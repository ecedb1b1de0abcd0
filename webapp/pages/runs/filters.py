"""The filter of the run explorer: its form and its chips."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from runtally.runs.read import Names
from runtally.usage.dimensions import METADATA
from runtally.usage.filter import Outcome, Period
from webapp.addresses import path_to
from webapp.pages.panel.narrowing import Chip, Choice, Option, RangeMenu, calendar_choices, range_menu
from webapp.pages.runs.views import HEADINGS, PERIODS, Column, RunsView
from webapp.view import MINUTES
from webapp.words import parts_of
from webapp.zone import Calendar, calendar_in, for_fields, in_utc

OUTCOMES = {
    Outcome.SUCCESS: "Success",
    Outcome.FAILED: "Failed",
    Outcome.ERROR: "Error only",
    Outcome.TIMEOUT: "Timeout only",
}


class FilterForm(Struct, frozen=True):
    """The values of the fields as they were sent, so that they can be corrected, and their errors."""

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
    keys: tuple[str, ...]
    """The tracked keys of metadata, as suggestions."""
    is_opened: bool
    """Whether one of the further fields is wrong; their values are shown as chips."""

    def value(self, name: str) -> str:
        return self.values.get(name, "")


_FURTHER = (
    "provider", "errorCode", "experiment", "serviceTier", "region", "minCost", "maxCost", "minLatency", "maxLatency",
    "metadata",
)  # fmt: skip
_HIDDEN = ("range", "since", "until", "sort", "trace", "session", "user", "tags", "key", "zone", "later", "live")


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


def form_of(
    view: RunsView, query: Mapping[str, str], errors: Mapping[str, str], names: Names, keys: Sequence[str]
) -> FilterForm:
    """Return the form with what a query says in its fields."""
    run_filter, values, errors = view.run_filter, _values_of(query), _errors_of(errors)
    providers = dict.fromkeys(provider for provider, _ in names.models)
    models = dict.fromkeys(model for provider, model in names.models if run_filter.provider in {None, provider})
    return FilterForm(
        values=values,
        errors=errors,
        hidden=tuple(
            (name, value) for name, value in values.items() if value and (name in _HIDDEN or name.startswith(METADATA))
        ),
        projects=_options(names.projects, run_filter.project_id) if len(names.projects) > 1 else (),
        providers=_options({name: name for name in providers}, run_filter.provider),
        models=_options({name: name for name in models}, run_filter.model),
        statuses=_options({outcome.value: name for outcome, name in OUTCOMES.items()}, run_filter.status),
        experiments=_options({name: name for name in names.experiments}, run_filter.experiment_id),
        columns=tuple(Option(column.value, HEADINGS[column], column in view.columns) for column in Column),
        keys=tuple(keys),
        is_opened=any(name in errors for name in _FURTHER),
    )


def _options(names: Mapping[str, str], chosen: str | None) -> tuple[Option, ...]:
    """Return the options, with the chosen one even if no run has it any more."""
    known = {**names, **({chosen: chosen} if chosen is not None and chosen not in names else {})}
    return tuple(Option(value, name, value == chosen) for value, name in known.items())


def range_menu_of(view: RunsView, now: datetime) -> RangeMenu:
    run_filter = view.run_filter
    is_custom = view.calendar is None and (run_filter.since is not None or run_filter.until is not None)
    start = run_filter.since or run_filter.range.start(now) or now
    times = {"since": start.strftime(MINUTES), "until": (run_filter.until or now).strftime(MINUTES)}
    columns = view.query.get("column", ())
    rest = {name: value for name, value in view.query.items() if name != "column"}
    menu = range_menu(
        tuple(
            Choice(
                period.value,
                view.during(period).url(),
                view.calendar is None and not is_custom and period is run_filter.range,
            )
            for period in Period
            if period is not Period.ALL
        ),
        (
            *calendar_choices(view.calendar, lambda one: view.in_calendar(one, now).url()),
            Choice(
                PERIODS[Period.ALL], view.during(Period.ALL).url(), not is_custom and run_filter.range is Period.ALL
            ),
        ),
        is_custom=is_custom,
        query={**rest, **times},
        action=path_to("runs.explorer"),
    )
    return replace(menu, hidden=(*menu.hidden, *(("column", column) for column in columns)))


def chips_of(view: RunsView, names: Mapping[str, str]) -> tuple[Chip, ...]:
    """Return a chip for each filter but the project, which the page's head and its field show; `names` has those of keys, by their id."""
    return tuple(Chip(one.label, one.value, view.of(one.rest).url()) for one in parts_of(view.run_filter, names))
