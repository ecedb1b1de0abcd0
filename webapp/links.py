"""Build and parse every URL of the pages that carries state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import SplitResult, quote, urlsplit

from werkzeug.routing import BaseConverter, IntegerConverter, ValidationError

from api.current import services
from runtally.errors import NotFound
from runtally.fields import MAX_NAME, MAX_ROW, is_project_id, parse_whole, trimmed
from runtally.models.run import Status
from runtally.paths import id_in, path_of
from runtally.usage.filter import ALL_RUNS, Outcome, Period, RunFilter
from runtally.usage.window import CustomRange, Range, TimeRange, Window
from webapp.addresses import address_of, path_to
from webapp.charts.series import Split, range_name
from webapp.ranges import Calendar, calendar_in
from webapp.zone import in_utc

Choice = TypeVar("Choice", bound=StrEnum)

MINUTES = "%Y-%m-%dT%H:%M"
"""The format of a time: in UTC in a query, in the zone that the form sends along in a form's field."""

_SOME_PROJECT = "some-project"
# The parameters that filter runs, in their order.
_NARROWING = ("model", "provider", "status", "experiment")


class Metric(StrEnum):
    """The figure that a chart shows over time."""

    COST = "cost"
    RUNS = "runs"
    ERRORS = "errors"
    LATENCY = "latency"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class View:
    """The state of a page: its project (None: the overview), range, metric and split of cost."""

    project_id: str | None = None
    range: TimeRange = Range.WEEK
    metric: Metric = Metric.COST
    by: Split = Split.MODEL
    filter: RunFilter = ALL_RUNS
    """The runs; project and time are fields of the view."""
    is_live: bool = False
    sort: str | None = None
    """The order of projects, for the overview."""
    search: str | None = None
    """A part of the names of projects, for the overview."""
    mistaken: tuple[str, str] | None = None
    """Start and end of a time that was asked for and cannot be shown: in UTC, or as they were sent."""
    calendar: Calendar | None = None
    """What the range is called, where it goes by the calendar."""

    @classmethod
    def parse(cls, query: Mapping[str, str], project_id: str | None = None) -> "View":
        """Parse the view of a query string. Invalid parameters are ignored, so that a page is shown in any case."""
        plain = cls()
        sent = in_utc(query)
        calendar = calendar_in(query)
        between = _between(sent) if calendar is None else calendar.span(services().clock())
        return cls(
            project_id,
            between or choice(Range, query.get("range"), Range.WEEK),
            choice(Metric, query.get("metric"), plain.metric),
            choice(Split, query.get("by"), plain.by),
            _filter(query) if project_id is not None else _of_models(_filter(query)),
            project_id is not None and query.get("live") == "1",
            (query.get("sort") or None) if project_id is None else None,
            (query.get("q", "").strip() or None) if project_id is None else None,
            _mistaken(sent) if between is None else None,
            calendar,
        )

    def replace(self, **changes: Any) -> "View":  # noqa: ANN401  # Any field of the view.
        # What is shown of a calendar range may be wider than it is; another range is not of the calendar.
        if "range" in changes and not (self.calendar and isinstance(changes["range"], CustomRange)):
            changes = {"calendar": None, **changes}
        return replace(self, **changes)

    def in_calendar(self, calendar: Calendar) -> "View":
        """Return the same view of a calendar range."""
        return replace(self, range=calendar.span(services().clock()), calendar=calendar)

    @property
    def period(self) -> str:
        """What the range is called, or from when to when it is."""
        return range_name(self.range) if self.calendar is None else self.calendar.label

    def window(self, now: datetime) -> Window:
        """Return the time of the view, in buckets for bars."""
        return Window.of(self.range, now, self.range.chart_interval)

    @property
    def url(self) -> str:
        if self.project_id is None:
            return address_of("overview.overview", self.query)
        return address_of("project.project", self.query, project_id=self.project_id)

    @property
    def query(self) -> dict[str, Any]:
        """The parameters that differ from the defaults, so that plain URLs stay plain."""
        found: dict[str, Any] = self.filter_query
        if self.metric is not Metric.COST:
            found["metric"] = self.metric.value
        if self.by is not Split.MODEL:
            found["by"] = self.by.value
        listed = {"sort": self.sort, "q": self.search} if self.project_id is None else {}
        found |= {name: value for name, value in listed.items() if value is not None}
        return found | ({"live": "1"} if self.is_live else {})

    def project_urls(self) -> Callable[[str], str]:
        """A function from a project's id to its URL with this view; it is fast, for pages of many projects."""
        before, _, after = self.replace(project_id=_SOME_PROJECT).url.partition(_SOME_PROJECT)
        return lambda project_id: f"{before}{path_of(project_id)}{after}"

    def page_url(self, number: int) -> str:
        """Return the URL of a page of the overview's projects; any other change leads to the first page."""
        return address_of("overview.overview", self.query | {"page": number if number > 1 else None})

    def chart_url(self, metric: Metric, of_project: str | None) -> str:
        """Return the URL of a chart's data."""
        return address_of(
            "charts.chart", {"project": of_project, "by": self._by} | self.filter_query, name=metric.value
        )

    def picture_url(self, metric: Metric, of_project: str | None, **more: str) -> str:
        """Return the URL of a chart as one picture."""
        query = {"project": of_project, "by": self._by, **more} | self.filter_query
        return address_of("embeds.picture", query, name=metric.value)

    def runs_url(self) -> str:
        """Return the URL of the list of these runs."""
        return address_of("runs.explorer", {"project": self.project_id} | self.filter_query)

    def breakdown_url(self, **more: str | None) -> str:
        """Return the URL of these runs as a table, grouped by the split."""
        return address_of(
            "breakdown.breakdown", {"project": self.project_id, "by": self._by, **more} | self.filter_query
        )

    @property
    def _by(self) -> str | None:
        """The split as a parameter; None for the default, by model."""
        return None if self.by is Split.MODEL else self.by.value

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
        said = self.filter.query
        found: dict[str, Any] = {name: said[name] for name in _NARROWING if name in said}
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


def _filter(query: Mapping[str, str]) -> RunFilter:
    texts = {name: trimmed(query.get(name, "")) or None for name in ("model", "provider", "status", "experiment")}
    # Postgres stores no NUL, so no run has one.
    if any("\0" in text for text in texts.values() if text):
        raise NotFound
    status = Status(texts["status"]) if texts["status"] in set(Status) else None
    return RunFilter(
        model=texts["model"],
        provider=texts["provider"],
        status=None if status is None else Outcome(status.value),
        experiment_id=texts["experiment"],
    )


def _of_models(run_filter: RunFilter) -> RunFilter:
    """Reduce the filter to what sums over all projects support."""
    return RunFilter(model=run_filter.model, provider=run_filter.provider)


class ProjectIdConverter(BaseConverter):
    """Converts a project id in a path: any text, including slashes and dots."""

    part_isolating = False
    regex = r"[\s\S]+"
    weight = 200

    def to_python(self, value: str) -> str:
        id_ = trimmed(id_in(value))
        if not self._may_be(id_):
            raise ValidationError
        return id_

    def _may_be(self, id_: str) -> bool:
        return is_project_id(id_)

    def to_url(self, value: str) -> str:
        return path_of(value)


class IdConverter(ProjectIdConverter):
    """Converts the id of a run or trace in a path, in the same way as a project's."""

    def _may_be(self, id_: str) -> bool:
        return 0 < len(id_) <= MAX_NAME and "\0" not in id_


class RowConverter(IntegerConverter):
    """Converts the number of a row in a path, which Postgres must be able to count up to."""

    def to_python(self, value: str) -> int:
        number = parse_whole(value, MAX_ROW)
        if number is None:
            raise ValidationError
        return number


class SegmentConverter(BaseConverter):
    """Converts any id as one segment of a path, so that a path can have two ids.

    As in JSON Pointer, `~1` is a slash and `~0` a tilde. Dots that a browser would resolve have a `~.` before them.
    """

    def to_python(self, value: str) -> str:
        id_ = trimmed(unescaped(value))
        if not id_ or "\0" in id_:
            raise ValidationError
        return id_

    def to_url(self, value: str) -> str:
        return quote(escaped(value), safe="~")


def escaped(text: str) -> str:
    """Return the text without slashes, so that it can stand between them."""
    text = text.replace("~", "~0").replace("/", "~1")
    return f"~.{text}" if text in {".", ".."} else text


def unescaped(text: str) -> str:
    return text.removeprefix("~.").replace("~1", "/").replace("~0", "~")


def join_url(server_url: str, token: str) -> str:
    """Return the URL at which the holder of this token creates an account.

    It needs no request, so that commands can print it.
    """
    return f"{server_url}/join?token={quote(token)}"


def requested_project(query: Mapping[str, str]) -> str | None:
    """Return the project of a query string, None if it has none. Raises `NotFound` for an invalid id."""
    project_id = query.get("project")
    if project_id is None:
        return None
    project_id = trimmed(project_id)
    if not is_project_id(project_id):
        raise NotFound
    return project_id


def chosen_project(query: Mapping[str, str]) -> str | None:
    """Return the project of a form, which sends an empty text where none is chosen."""
    return requested_project(query) if trimmed(query.get("project", "")) else None


def safe_path(target: str | None) -> str:
    """Return the target if it is a page of this site, else the overview, so that no link redirects to another site."""
    if not target or not target.startswith("/") or target.startswith("//") or not target.isprintable():
        return path_to("overview.overview")
    # A browser reads a backslash as a slash, and dot segments it resolves are no pages.
    segments = _parsed(target).path.split("/")
    is_page = len(segments) > 1 and "\\" not in target and not {".", ".."} & set(segments)
    return target if is_page else path_to("overview.overview")


def path_in(url: str) -> str:
    """Return the path and query of a URL that a client sent; empty if it is invalid."""
    parts = _parsed(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def host_of(url: str) -> str:
    """Return host and port of a URL that a client sent; empty if it is invalid."""
    return _parsed(url).netloc


def _parsed(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def choice(choices: type[Choice], text: str | None, otherwise: Choice) -> Choice:
    try:
        return choices(text) if text else otherwise
    except ValueError:
        return otherwise
