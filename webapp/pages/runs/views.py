"""The state of the run explorer and its URLs: filter with its form and chips, columns, order and position."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from quart import url_for

from api.current import services
from runtally.ids import path_of
from runtally.runs.export import Format
from runtally.runs.read import Names
from runtally.runs.sorting import Order, SortKey
from runtally.runs.values import Direction, Place
from runtally.usage.dimensions import METADATA
from runtally.usage.filter import Outcome, Period, RunFilter
from runtally.usage.timeline import EPOCH
from runtally.usage.window import LAST
from webapp import formats
from webapp.addresses import path_to
from webapp.charts.series import RANGE_NAMES
from webapp.pages.panel.narrowing import MISTAKEN, Chip, Choice, Option, RangeMenu, calendar_choices, range_menu
from webapp.report import Sorting
from webapp.view import MINUTES
from webapp.words import parts_of
from webapp.zone import TIMES, Calendar, calendar_in, for_fields, in_utc, local

_SOME_RUN = "some-run"
_AT = "archived"


class RunColumn(NamedTuple):
    """An optional column of a list of runs."""

    title: str
    is_number: bool = False
    is_usual: bool = True
    """Whether it is shown until somebody chooses the columns."""


COLUMNS = {
    "project": RunColumn("Project"),
    "provider": RunColumn("Provider", is_usual=False),
    "model": RunColumn("Model"),
    "status": RunColumn("Status"),
    "tokensIn": RunColumn("Tokens in", is_number=True),
    "tokensOut": RunColumn("Tokens out", is_number=True),
    "cached": RunColumn("Cached", is_number=True, is_usual=False),
    "latency": RunColumn("Latency", is_number=True),
    "firstToken": RunColumn("First token", is_number=True, is_usual=False),
    "experiment": RunColumn("Experiment", is_usual=False),
    "session": RunColumn("Session", is_usual=False),
    "user": RunColumn("User", is_usual=False),
    "trace": RunColumn("Trace", is_usual=False),
    "run": RunColumn("Run id", is_usual=False),
    "cost": RunColumn("Cost", is_number=True),
}
SORTS = {
    "time": None,
    "cost": SortKey.COST,
    "latency": SortKey.LATENCY,
    "tokensIn": SortKey.TOKENS_IN,
    "tokensOut": SortKey.TOKENS_OUT,
}
"""The columns by which runs can be sorted, and by what of them; without any the newest come first."""


NEWEST_FIRST = Sorting("time")
PERIODS = {**{Period(range_.value): name for range_, name in RANGE_NAMES.items()}, Period.ALL: "All time"}


class RunsView(Struct, frozen=True):
    """The state of the run explorer."""

    run_filter: RunFilter
    columns: tuple[str, ...]
    sorting: Sorting[str] = NEWEST_FIRST
    calendar: Calendar | None = None
    """What the range is called, where it goes by the calendar; the filter has its times."""
    is_live: bool = False

    @classmethod
    def with_columns(cls, run_filter: RunFilter, chosen: Sequence[str]) -> "RunsView":
        """Return the view with the columns of these names, or the default ones; other names are ignored."""
        columns = tuple(column for column in COLUMNS if column in chosen)
        return cls(run_filter, columns or _usual(run_filter))

    def replace(self, **changes: Any) -> "RunsView":  # noqa: ANN401  # Any field of the filter.
        run_filter = self.run_filter.replace(**changes)
        # The usual columns depend on whether there is one project to see.
        columns = _usual(run_filter) if self.columns == _usual(self.run_filter) else self.columns
        calendar = None if {"range", "since", "until"} & set(changes) else self.calendar
        return replace(self, run_filter=run_filter, columns=columns, calendar=calendar)

    def of(self, run_filter: RunFilter) -> "RunsView":
        """Return the same view of other runs of the same projects and time."""
        return replace(self, run_filter=run_filter)

    def during(self, period: Period) -> "RunsView":
        """Return the same runs of another range."""
        return self.replace(range=period, since=None, until=None)

    def in_calendar(self, calendar: Calendar, now: datetime) -> "RunsView":
        """Return the same runs of a calendar range."""
        span = calendar.span(now)
        return replace(self.replace(range=Period.WEEK, since=span.since, until=span.until), calendar=calendar)

    def sorted_by(self, sorting: Sorting[str]) -> "RunsView":
        return replace(self, sorting=sorting)

    @property
    def order(self) -> Order | None:
        """The order of a sorted list; None for the newest first."""
        key = SORTS[self.sorting.column]
        return None if key is None else Order(key, is_ascending=self.sorting.is_reversed)

    def without(self, *names: str) -> "RunsView":
        plain = self.run_filter.without(*names)
        return self.replace(**{name: getattr(plain, name) for name in names})

    @property
    def period(self) -> str:
        """The name of the range, or its start and end."""
        since, until = self.run_filter.since, self.run_filter.until
        if self.calendar is not None:
            return self.calendar.period(services().clock())
        if since is not None and until is not None:
            return formats.between(local(since), local(until))
        if since is not None:
            return f"Since {formats.minute(local(since))}"
        if until is not None:
            return f"{PERIODS[self.run_filter.range]}, until {formats.minute(local(until))}"
        return PERIODS[self.run_filter.range]

    def page_url(self, number: int) -> str:
        """Return the URL of a page of sorted runs."""
        query: dict[str, Any] = {**self.query, **({"page": number} if number > 1 else {})}
        return url_for("runs.explorer", **query)

    def url(self, direction: Direction | None = None, place: Place | None = None) -> str:
        """Return the URL of the page that begins at a position, or at the newest run."""
        query: dict[str, Any] = dict(self.query)
        if direction is not None and place is not None:
            query[direction.value] = place.token
        return url_for("runs.explorer", **query)

    def export_url(self, format_: Format, **part: str | int) -> str:
        """Return the URL of a file of all these runs, or of the part that these parameters name."""
        sort = self.sorting.text("time")
        query: dict[str, Any] = {**self.filter_query, **({"sort": sort} if sort else {})}
        query |= {**part, **({"bom": "1"} if format_ is Format.CSV else {})}
        return url_for("runs.export_runs", name=format_.value, **query)

    @property
    def filter_query(self) -> dict[str, str]:
        """Return the query parameters of the filter."""
        said = self.run_filter.query
        if self.calendar is None:
            return said
        return {name: value for name, value in said.items() if name not in {"since", "until"}} | {
            "range": self.calendar.value
        }

    @property
    def query(self) -> dict[str, Any]:
        found: dict[str, Any] = dict(self.filter_query)
        if self.columns != _usual(self.run_filter):
            found["column"] = [*self.columns]
        sort = self.sorting.text("time")
        return found | ({"sort": sort} if sort else {}) | ({"live": "1"} if self.is_live else {})


def run_url(project_id: str, run_id: str, archived_at: datetime | None = None) -> str:
    """Return the URL of a run's page; with the time of an archived run it is found without a search."""
    # A page has many of one project.
    before = path_to("run.run", project_id=project_id, run_id=_SOME_RUN).removesuffix(_SOME_RUN)
    return f"{before}{path_of(run_id)}{_query_of(archived_at)}"


def trace_url(project_id: str, trace_id: str, archived_at: datetime | None = None) -> str:
    return url_for("run.trace", project_id=project_id, trace_id=trace_id) + _query_of(archived_at)


def archived_at(query: Mapping[str, str]) -> datetime | None:
    """Read the time of an archived run from the query of its page; None without one."""
    try:
        at = datetime.fromisoformat(query.get(_AT, "")).replace(tzinfo=UTC)
    except ValueError:
        return None
    return at if EPOCH <= at < LAST else None


def _query_of(at: datetime | None) -> str:
    return "" if at is None else f"?{_AT}={at.astimezone(UTC).replace(tzinfo=None).isoformat()}"


def session_url(project_id: str, session_id: str) -> str:
    return url_for("session.session", project_id=project_id, session_id=session_id)


def runs_url(**fields: Any) -> str:  # noqa: ANN401  # Any field of the filter.
    """The explorer with this filter."""
    run_filter = RunFilter(**fields)
    return RunsView(run_filter, _usual(run_filter)).url()


def _usual(run_filter: RunFilter) -> tuple[str, ...]:
    has_several = run_filter.project_id is None
    return tuple(name for name, column in COLUMNS.items() if column.is_usual and (has_several or name != "project"))


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

    @property
    def wrong_elsewhere(self) -> tuple[str, ...]:
        """What is wrong with the parts of the address that have no field here, nor in the menu of ranges."""
        shown = {"q", "project", "model", "status", *_FURTHER, *TIMES}
        return tuple(f"{name} {must}." for name, must in self.errors.items() if name not in shown)


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
        columns=tuple(Option(name, column.title, name in view.columns) for name, column in COLUMNS.items()),
        keys=tuple(keys),
        is_opened=any(name in errors for name in _FURTHER),
    )


def _options(names: Mapping[str, str], chosen: str | None) -> tuple[Option, ...]:
    """Return the options, with the chosen one even if no run has it any more."""
    known = {**names, **({chosen: chosen} if chosen is not None and chosen not in names else {})}
    return tuple(Option(value, name, value == chosen) for value, name in known.items())


def range_menu_of(view: RunsView, now: datetime, form: FilterForm) -> RangeMenu:
    """Return the range control, which shows times that were sent and are wrong."""
    run_filter, is_wrong = view.run_filter, any(name in form.errors for name in TIMES)
    is_custom = view.calendar is None and (run_filter.since is not None or run_filter.until is not None)
    start = run_filter.starts_at(now) or now
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
    sent = {**{name: form.value(name) for name in TIMES}, "error": MISTAKEN.format(reach="")} if is_wrong else {}
    return replace(menu, hidden=(*menu.hidden, *(("column", column) for column in columns)), **sent)


def chips_of(view: RunsView, names: Mapping[str, str]) -> tuple[Chip, ...]:
    """Return a chip for each filter but the project, which the page's head and its field show; `names` has those of keys, by their id."""
    return tuple(Chip(one.label, one.value, view.of(one.rest).url()) for one in parts_of(view.run_filter, names))
