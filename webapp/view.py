"""The state of a page: its project, range, metric, grouping and filter, to and from the query of a URL."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from api.current import actor, services
from runtally.audit import ActorKind
from runtally.errors import InvalidFilter
from runtally.ids import path_of
from runtally.usage.dimensions import (
    DIMENSIONS,
    ERROR_CODE,
    EXPERIMENT,
    METADATA,
    MODEL,
    PROVIDER,
    REGION,
    SERVICE_TIER,
    STATUS,
    Dimension,
    dimension_named,
)
from runtally.usage.filter import ALL_RUNS, NAMES, Period, RunFilter
from runtally.usage.window import CustomRange, Range, TimeRange, Window
from webapp.addresses import address_of
from webapp.charts.metrics import Metric, name_of
from webapp.charts.series import range_name
from webapp.project_pages import GROUPED, OVERVIEW, RUNS, TABLES, ProjectPage
from webapp.words import NOT_IN_CHARTS, in_sentence
from webapp.zone import Calendar, calendar_in, in_utc

Choice = TypeVar("Choice", bound=StrEnum)

MINUTES = "%Y-%m-%dT%H:%M"
"""The format of a time: in UTC in a query, in the zone that the form sends along in a form's field."""

NO_PARAMETERS: Mapping[str, str] = {}
_SOME_PROJECT = "some-project"
NO_GROUPS = "none"
"""The value of `by` for no groups."""
# The parameters that filter runs besides keys of metadata.
_FILTERS = {NAMES[dimension.filter_field] for dimension in DIMENSIONS.values()}
_LONGEST_REPEATED = 40
_OPEN_TO_LINKS = {PROVIDER, MODEL, STATUS, ERROR_CODE, EXPERIMENT, SERVICE_TIER, REGION}


class View(Struct, frozen=True):
    """The state of a page: its project (None: the overview), range, metric, grouping and filter."""

    project_id: str | None = None
    range: TimeRange = Range.WEEK
    metric: Metric = Metric.COST
    by: Dimension | None = MODEL
    """The dimension that runs are grouped by; None for no groups."""
    filter: RunFilter = ALL_RUNS
    """The runs; project and time are fields of the view."""
    is_live: bool = False
    mistaken: tuple[str, str] | None = None
    """Start and end of a time that was asked for and cannot be shown: in UTC, or as they were sent."""
    calendar: Calendar | None = None
    """What the range is called, where it goes by the calendar."""
    notes: tuple[str, ...] = ()
    """What the query asked for and is not shown, in sentences."""
    report: ProjectPage = OVERVIEW
    """The page that shows the runs; of all projects, the page that shows the same of them."""
    own: Mapping[str, str] = NO_PARAMETERS
    """The parameters that this page alone has, where they differ from the defaults."""

    @classmethod
    def parse(cls, query: Mapping[str, str], project_id: str | None = None, report: ProjectPage = OVERVIEW) -> "View":
        """Parse the view of a query string; the parameters of this page alone are left to it.

        What cannot be read has a note and the default in its place, so that a page is shown in any case.
        """
        notes: list[str] = []
        sent = in_utc(query)
        calendar = calendar_in(query)
        between = _between(sent) if calendar is None else calendar.span(services().clock())
        mistaken = _mistaken(sent) if between is None else None
        range_ = between or choice(Range, query.get("range"), Range.WEEK)
        if between is None and mistaken is None and query.get("range") not in {None, *Range}:
            notes.append(_note("range", query["range"], "the last 7 days are"))
        metric = choice(Metric, query.get("metric"), cls().metric)
        if query.get("metric", metric) != metric:
            notes.append(_note("metric", query["metric"], "cost is"))
        by, run_filter = _by(query, notes, is_table=report in TABLES), _filter(query, notes)
        if (by is not None and not is_open(by)) or not all(map(is_open, run_filter.dimensions)):
            notes.append(
                "This link shows no users, sessions, traces, keys, tags or metadata; runs are grouped by model, without filters."
            )
            by, run_filter = MODEL, ALL_RUNS
        if metric is not (known := metric.in_groups_by(by)) and by is not None:
            shown = f"instead of {name_of(metric).lower()} this is {name_of(known).lower()}."
            notes.append(f"Of the runs of one {in_sentence(by)} all failed, or none: {shown}")
        return cls(
            project_id,
            range_,
            known,
            by,
            run_filter,
            query.get("live") == "1",
            mistaken,
            calendar,
            tuple(notes),
            report,
        )

    def replace(self, **changes: Any) -> "View":  # noqa: ANN401  # Any field of the view.
        # What is shown of a calendar range may be wider than it is; another range is not of the calendar.
        if "range" in changes and not (self.calendar and isinstance(changes["range"], CustomRange)):
            changes = {"calendar": None, **changes}
        found = replace(self, **changes)
        metric = found.metric.in_groups_by(found.by)
        return found if metric is found.metric else replace(found, metric=metric)

    def in_calendar(self, calendar: Calendar) -> "View":
        """Return the same view of a calendar range."""
        return replace(self, range=calendar.span(services().clock()), calendar=calendar)

    @property
    def period(self) -> str:
        """The name of the range, or its start and end."""
        return range_name(self.range) if self.calendar is None else self.calendar.period(services().clock())

    def window(self, now: datetime) -> Window:
        """Return the time of the view, in buckets for bars."""
        return Window.of(self.range, now, self.range.chart_interval)

    def at(self, report: ProjectPage) -> "View":
        """Return the same runs on another page, grouped in the same way where it can."""
        by = self.by
        if (by is None and report in TABLES) or (by in NOT_IN_CHARTS and report not in TABLES):
            by = MODEL
        return replace(self, report=report, by=by, own=NO_PARAMETERS)

    def with_own(self, **own: str | None) -> "View":
        """Return the view with other parameters of this page alone; None for a default."""
        changed = {**self.own, **own}
        return replace(self, own={name: value for name, value in changed.items() if value is not None})

    @property
    def url(self) -> str:
        return self.report.address(self.project_id, self.query)

    @property
    def action(self) -> str:
        """The address for a form, which sends the query along."""
        return self.report.address(self.project_id).partition("?")[0]

    @property
    def query(self) -> dict[str, Any]:
        """The parameters that differ from the defaults, so that plain URLs stay plain."""
        of_project = self.report.has_project_in_query and self.project_id is not None
        found: dict[str, Any] = {"project": self.project_id} if of_project else {}
        found |= self.filter_query
        if self.report is OVERVIEW and self.metric is not Metric.COST:
            found["metric"] = self.metric.value
        if self.report in GROUPED and self._by is not None:
            found["by"] = self._by
        return {**found, **self.own, **self.live_query}

    @property
    def live_query(self) -> dict[str, str]:
        return {"live": "1"} if self.is_live else {}

    def project_urls(self) -> Callable[[str], str]:
        """A function from a project's id to its URL with this view; it is fast, for pages of many projects."""
        of_some = replace(self.at(OVERVIEW), project_id=_SOME_PROJECT, is_live=False)
        before, _, after = of_some.url.partition(_SOME_PROJECT)
        return lambda project_id: f"{before}{path_of(project_id)}{after}"

    def chart_url(self, metric: Metric, of_project: str | None) -> str:
        """Return the URL of a chart's data."""
        return address_of(
            "project.chart", {"project": of_project, "by": self._by} | self.filter_query, name=metric.value
        )

    def picture_url(self, metric: Metric, of_project: str | None, **more: str) -> str:
        """Return the URL of a chart as one picture."""
        query = {"project": of_project, "by": self._by, **more} | self.filter_query
        return address_of("project.picture", query, name=metric.value)

    def runs_url(self) -> str:
        """Return the URL of the list of these runs."""
        return RUNS.address(self.project_id, self.filter_query)

    def why_url(self) -> str:
        """Return the URL of what made the cost of these runs change."""
        return address_of("why.why", {"project": self.project_id} | self.filter_query)

    @property
    def _by(self) -> str | None:
        """The grouping as a parameter; None for the default, by model."""
        if self.by is None:
            return NO_GROUPS
        return None if self.by == MODEL else self.by.name

    @property
    def run_filter(self) -> RunFilter:
        """The filter of these runs for the run explorer."""
        reach = self.range
        if isinstance(reach, CustomRange):
            return self.filter.replace(project_id=self.project_id, since=reach.since, until=reach.until)
        return self.filter.replace(project_id=self.project_id, range=Period(reach.value))

    @property
    def filter_query(self) -> dict[str, Any]:
        """The parameters of the filter, named as in the run explorer."""
        found: dict[str, Any] = dict(self.filter.query)
        reach = self.range
        if self.calendar is not None:
            found["range"] = self.calendar.value
        elif isinstance(reach, CustomRange):
            found |= {"since": reach.since.strftime(MINUTES), "until": reach.until.strftime(MINUTES)}
        elif reach is not Range.WEEK:
            found["range"] = reach.value
        return found


def _between(query: Mapping[str, str]) -> CustomRange | None:
    """Parse the time from `since` until `until`, in UTC; None unless both are valid and in order."""
    try:
        since, until = (datetime.fromisoformat(query.get(name, "")) for name in ("since", "until"))
        return CustomRange.of(
            *(at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC) for at in (since, until))
        )
    except (ValueError, OverflowError):
        return None


def _mistaken(query: Mapping[str, str]) -> tuple[str, str] | None:
    sent = (query.get("since", ""), query.get("until", ""))
    return sent if any(sent) else None


def is_open(dimension: Dimension | None) -> bool:
    """Return whether the reader may see values of a dimension: who follows a link sees none that may name people."""
    return actor().kind is not ActorKind.LINK or dimension in _OPEN_TO_LINKS


def _by(query: Mapping[str, str], notes: list[str], *, is_table: bool) -> Dimension | None:
    text = query.get("by", "")
    if text == NO_GROUPS and not is_table:
        return None
    found = dimension_named(text)
    if found is not None and (is_table or found not in NOT_IN_CHARTS):
        return found
    if found is not None:
        notes.append("A chart has no room for traces; runs are grouped by model instead.")
    elif text:
        notes.append(
            f"Runs cannot be grouped by {_quoted(text)}; they are grouped by model instead. "
            f"A key of metadata is written {METADATA}<key>."
        )
    return MODEL


def _filter(query: Mapping[str, str], notes: list[str]) -> RunFilter:
    """Read the filters that can be read, with a note of each of the others."""
    said = {name: query[name] for name in query if name in _FILTERS or name.startswith(METADATA)}
    try:
        return RunFilter.parse(said)
    except InvalidFilter as error:
        notes += [f"The filter {detail.path} {detail.message}, so it is left out." for detail in error.details]
        wrong = {detail.path for detail in error.details}
        is_of_keys = any(name.startswith(METADATA) for name in wrong)
    return RunFilter.parse(
        {
            name: value
            for name, value in said.items()
            if name not in wrong and not (is_of_keys and name.startswith(METADATA))
        }
    )


def _note(name: str, text: str, instead: str) -> str:
    return f"There is no {name} {_quoted(text)}; {instead} shown instead."


def _quoted(text: str) -> str:
    """Return what was asked for, as far as it can be printed."""
    return f"\u201c{''.join(character for character in text if character.isprintable())[:_LONGEST_REPEATED]}\u201d"


def choice(choices: type[Choice], text: str | None, otherwise: Choice) -> Choice:
    try:
        return choices(text) if text else otherwise
    except ValueError:
        return otherwise
