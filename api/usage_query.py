"""The query of `GET /api/usage`: its parameters and constraints, and the `Question` made of them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta
from werkzeug.datastructures import MultiDict

from api.cells import OfCell
from api.metrics import OfProject, OverAll
from runtally.errors import Detail, InvalidFilter, InvalidPayload, InvalidRange
from runtally.fields import camel, parse_whole
from runtally.runs.cost_lines import LINE
from runtally.usage.dimensions import DIMENSIONS, METADATA, Dimension, dimension_named
from runtally.usage.filter import NAMES, Outcome, RunFilter
from runtally.usage.plan import LatencyDetail, Question
from runtally.usage.timeline import MAX_BUCKETS, BucketWidth, Timeline, TimeSpan
from runtally.usage.window import LAST, NamedRange

Choice = TypeVar("Choice", bound=StrEnum)

MAX_GROUPS = 1_000
DEFAULT_GROUPS = 50
MAX_DIMENSIONS = 2
_LONGEST_NAME = 64
_NAME = re.compile(r"[A-Za-z.]{1,64}")
_GROUPED_BY = (*DIMENSIONS, f"{METADATA}<key>", LINE)
_PAGE = re.compile(r"([1-9][0-9]{0,8})(?:-([0-9]{1,12})-([0-9]{1,12}))?")
_FIRST = datetime(2000, 1, 1, tzinfo=UTC)


class UsageFormat(StrEnum):
    """The formats of a response."""

    JSON = "json"
    CSV = "csv"


_Value = Annotated[str, Meta(max_length=256, description="Only runs with this value.")] | None


class UsageQuery(msgspec.Struct, frozen=True, rename=camel, kw_only=True):
    """The query parameters of `GET /api/usage`: runs, time range, buckets and groups. Each filter has the name of its dimension."""

    project_id: OfProject = None
    aggregate: OverAll = None
    cell: OfCell | None = None
    range: Annotated[
        NamedRange,
        Meta(description="The time by its name, in UTC. Those of hours and days end with the bucket that holds now."),
    ] = NamedRange.LAST_7_DAYS
    start: Annotated[
        str | None, Meta(description="Instead of range, with end: ISO 8601.", extra_json_schema={"format": "date-time"})
    ] = None
    end: Annotated[str | None, Meta(description="Exclusive.", extra_json_schema={"format": "date-time"})] = None
    bucket_width: Annotated[
        BucketWidth,
        Meta(
            description="Length of a bucket, aligned to UTC; weeks begin on Monday. `1h` without one for a day, else `1d`."
        ),
    ] = BucketWidth.DAY
    group_by: Annotated[
        list[str],
        Meta(
            max_length=MAX_DIMENSIONS,
            description=f"Repeated for two: {', '.join(_GROUPED_BY)}. With `line` the groups are the lines of costs.",
        ),
    ] = msgspec.field(default_factory=list)
    limit: Annotated[
        int, Meta(ge=1, le=MAX_GROUPS, description="The most groups; the rest are one group, `(other)`.")
    ] = DEFAULT_GROUPS
    page: Annotated[str | None, Meta(description="nextPage of the answer before; without one the first.")] = None
    format: UsageFormat = UsageFormat.JSON
    provider: _Value = None
    model: _Value = None
    status: Annotated[Outcome | None, Meta(description="How the runs ended; failed is an error or a timeout.")] = None
    error_code: _Value = None
    experiment: _Value = None
    key: Annotated[
        str | None, Meta(description="Id of the key that sent the runs.", extra_json_schema={"format": "uuid"})
    ] = None
    service_tier: _Value = None
    region: _Value = None
    trace: _Value = None
    session: _Value = None
    user: _Value = None
    tags: Annotated[str, Meta(max_length=256, description="A tag that the runs have.")] | None = None
    metadata: (
        Annotated[
            str, Meta(max_length=256, description="The value of a key of metadata, such as metadata.feature=search.")
        ]
        | None
    ) = msgspec.field(default=None, name=f"{METADATA}<key>")


@dataclass(frozen=True, slots=True)
class UsageRequest:
    """A valid query of `GET /api/usage`."""

    question: Question
    group_by: tuple[str, ...]
    """The names of the dimensions as the query spells them, which may be `metadata.env` for `metadata.environment`."""
    has_lines: bool
    """Whether the lines of costs are asked for."""
    width: BucketWidth
    page: int
    page_suffix: str
    """What keeps the next page in the same time, where that was asked for by its name."""
    format: UsageFormat


_NAMES = {field.encode_name for field in msgspec.structs.fields(UsageQuery)}
_FILTERS = {NAMES[dimension.filter_field] for dimension in DIMENSIONS.values()}


def read_request(args: "MultiDict[str, str]", project_id: str | None, now: datetime) -> UsageRequest:
    """Read a query string. Raises `InvalidRange`, and `InvalidPayload` with all else that cannot be read."""
    details = [*_unknown(args), *_repeated(args)]
    width = _choice(args, "bucketWidth", BucketWidth, details)
    format_ = _choice(args, "format", UsageFormat, details) or UsageFormat.JSON
    by = _dimensions(args.getlist("groupBy"), details)
    limit = _whole(args, "limit", MAX_GROUPS, details) or DEFAULT_GROUPS
    page, span_of_page = _page(args.get("page"), details)
    width = width or _width_of(args)
    span = span_of_page or _span(args, width, now, details)
    run_filter = _filter(args, details)
    if details:
        raise InvalidPayload(
            "Correct the parameters listed in details; /docs lists all there are.", details=tuple(details)
        )
    try:
        timeline = Timeline.in_buckets(span, width, now)
    except ValueError:
        must = f"must be long enough that there are at most {MAX_BUCKETS:,} buckets"
        raise InvalidPayload(
            "Ask for longer buckets, or for a shorter time.", details=(Detail("bucketWidth", must),)
        ) from None
    question = Question(
        timeline, run_filter.replace(project_id=project_id), by, latencies=LatencyDetail.BUCKETS, limit=limit
    )
    seconds = tuple(int(at.timestamp()) for at in span)
    suffix = "" if "start" in args else f"-{seconds[0]}-{seconds[1]}"
    names = tuple(args.getlist("groupBy"))
    return UsageRequest(question, names, LINE in names, width, page, suffix, format_)


def _unknown(args: "MultiDict[str, str]") -> Iterator[Detail]:
    for name in args:
        if name not in _NAMES and not name.startswith(METADATA):
            # A name that can be no parameter may be anything.
            path = name if _NAME.fullmatch(name) else "query"
            yield Detail(path, "is no parameter of this route")


def _repeated(args: "MultiDict[str, str]") -> Iterator[Detail]:
    for name in args:
        if name != "groupBy" and len(args.getlist(name)) > 1:
            yield Detail(name[:_LONGEST_NAME], "must be there once")


def _choice(args: Mapping[str, str], name: str, choices: type[Choice], details: list[Detail]) -> Choice | None:
    text = args.get(name)
    if text is None:
        return None
    try:
        return choices(text)
    except ValueError:
        details.append(Detail(name, f"must be one of {', '.join(choices)}"))
        return None


def _whole(args: Mapping[str, str], name: str, most: int, details: list[Detail]) -> int | None:
    text = args.get(name)
    if text is None:
        return None
    number = parse_whole(text, most)
    if not number:
        details.append(Detail(name, f"must be a whole number from 1 to {most:,}"))
    return number


def _dimensions(names: list[str], details: list[Detail]) -> tuple[Dimension, ...]:
    found = [dimension_named(name) for name in names if name != LINE]
    by = tuple(one for one in found if one is not None)
    if len(by) < len(found):
        details.append(Detail("groupBy", f"must be one of {', '.join(_GROUPED_BY)}"))
    if len(names) > MAX_DIMENSIONS or len(set(names)) < len(names) or len(set(by)) < len(by):
        details.append(Detail("groupBy", "must name at most two different dimensions"))
    return by


def _page(text: str | None, details: list[Detail]) -> tuple[int, TimeSpan | None]:
    """Read which page, and the time that it is of."""
    if text is None:
        return 1, None
    match = _PAGE.fullmatch(text)
    if match is None:
        details.append(Detail("page", "must be the nextPage of an answer"))
        return 1, None
    number, since, until = match.groups()
    if since is None:
        return int(number), None
    seconds = int(since), int(until)
    if not _FIRST.timestamp() <= seconds[0] < seconds[1] <= LAST.timestamp():
        details.append(Detail("page", "must be the nextPage of an answer"))
        return 1, None
    return int(number), TimeSpan(*(datetime.fromtimestamp(at, UTC) for at in seconds))


def _width_of(args: Mapping[str, str]) -> BucketWidth:
    is_of_a_day = args.get("range") in {NamedRange.LAST_24_HOURS, NamedRange.TODAY, NamedRange.YESTERDAY}
    return BucketWidth.HOUR if is_of_a_day else BucketWidth.DAY


def _span(args: Mapping[str, str], width: BucketWidth, now: datetime, details: list[Detail]) -> TimeSpan:
    """Read the time. Raises `InvalidRange`."""
    if "start" not in args and "end" not in args:
        try:
            return NamedRange(args.get("range", NamedRange.LAST_7_DAYS)).span(now, width)
        except ValueError:
            raise InvalidRange(f"Use range={', '.join(NamedRange)}, or start and end.") from None
    if "range" in args:
        details.append(Detail("range", "must be left out where start and end are given"))
    moments = [_moment(args, name, details) for name in ("start", "end")]
    since, until = moments
    if since is None or until is None:
        return TimeSpan(now, now)
    if since >= until:
        details.append(Detail("end", "must be later than start"))
    return TimeSpan(since, until)


def _moment(args: Mapping[str, str], name: str, details: list[Detail]) -> datetime | None:
    try:
        moment = datetime.fromisoformat(args.get(name, ""))
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        moment = LAST.replace(year=LAST.year + 1)
    if _FIRST <= moment <= LAST:
        return moment
    details.append(Detail(name, "must be a time such as 2026-11-18T12:00:00Z, in UTC if it names no offset"))
    return None


def _filter(args: Mapping[str, str], details: list[Detail]) -> RunFilter:
    try:
        return RunFilter.parse({name: args[name] for name in args if name in _FILTERS or name.startswith(METADATA)})
    except InvalidFilter as error:
        details += error.details
        return RunFilter()
