"""GET /api/usage."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.auth import project_key
from api.cost_lines import (
    AnswerPage,
    LineBucket,
    LineGroup,
    LinesAnswer,
    Moment,
    deleted_usd,
    line_groups,
    value_of,
)
from api.current import actor, services
from api.metrics import Count, UsDollars, requested_project
from api.operation import Answer, Content, Operation, documents
from api.reply import Reply, answered, reply, utc
from api.usage_query import UsageFormat, UsageQuery, UsageRequest, read_request
from runtally.access.keys import names_of
from runtally.access.scopes import Scope, demand
from runtally.cells.request import demand_all, missing
from runtally.db.database import Connection
from runtally.errors import (
    DimensionNotTracked,
    Forbidden,
    InvalidPayload,
    InvalidRange,
    ProjectNotInferred,
    QueryTooSlow,
)
from runtally.fields import camel
from runtally.money import as_json
from runtally.runs.cost_lines import CostLines, read_cost_lines
from runtally.spreadsheets import csv_of, guarded
from runtally.usage.deleted_queries import DeletedCosts, read_deleted
from runtally.usage.dimensions import KEY, OTHER
from runtally.usage.groups.groups import GroupAnswer, Sums, read_groups
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.plan import Group
from runtally.usage.snapshots import Snapshots
from runtally.usage.totals import NO_RUNS

blueprint = Blueprint("usage", __name__, url_prefix="/api")

PAGE_ROWS = 10_000
"""Groups in buckets that a page has at most, but at least one bucket."""
CSV = "text/csv"
_NO_SUMS = Sums(NO_RUNS, None)

Savings = Annotated[
    msgspec.Raw,
    Meta(
        description="US dollars that caches saved, every digit exact; below zero where writing to them cost more.",
        extra_json_schema={"type": "number"},
    ),
]
Percentile = Annotated[
    float,
    Meta(
        ge=0,
        description="Nearest rank, within 1 %; 0 without runs that report a latency, null where no sketch has it and too many "
        "runs would have to be read.",
    ),
]


class UsageGroup(msgspec.Struct, frozen=True, rename=camel, kw_only=True):
    """The sums of one group; runs without a value of the dimension are in the group whose value is null."""

    group: Annotated[dict[str, str | None], Meta(description="The value of each dimension of groupBy.")]
    runs: Count
    errors: Count
    timeouts: Count
    unpriced: Annotated[int, Meta(ge=0, description="Runs whose cost is not known; it is not in costUSD.")]
    without_usage: Annotated[
        int,
        Meta(
            ge=0,
            description="Runs of models with a price that have neither tokens nor other units nor a reported cost; they "
            "are 0 in costUSD.",
        ),
    ]
    cost_usd: UsDollars
    input_tokens: Annotated[int, Meta(ge=0, description="Cached ones included.")]
    output_tokens: Annotated[int, Meta(ge=0, description="Reasoning included.")]
    cached_input_tokens: Count
    cache_write_tokens: Count
    reasoning_tokens: Count
    cache_savings_usd: Savings
    p50_latency_ms: Percentile | None
    p95_latency_ms: Percentile | None


class UsageBucket(msgspec.Struct, frozen=True):
    """The groups that have runs in a bucket; without groupBy its one group in any case."""

    start: Moment
    end: Annotated[str, Meta(description="Exclusive.", extra_json_schema={"format": "date-time"})]
    groups: tuple[UsageGroup, ...]


class UsageAnswer(AnswerPage, frozen=True, kw_only=True):
    """A page of buckets, oldest first, and the groups over all of the time, the most expensive first."""

    buckets: tuple[UsageBucket, ...]
    totals: Annotated[
        tuple[UsageGroup, ...],
        Meta(
            description="Over all of the time, whatever the page. They add up to the total without groupBy, to the last digit."
        ),
    ]


_SUMS = {
    "runs": 40, "errors": 1, "timeouts": 0, "unpriced": 0, "withoutUsage": 0, "costUSD": 0.4117, "inputTokens": 51_200,
    "outputTokens": 9_310, "cachedInputTokens": 20_480, "cacheWriteTokens": 0, "reasoningTokens": 0,
    "cacheSavingsUSD": 0.055296, "p50LatencyMs": 812, "p95LatencyMs": 2140,
}  # fmt: skip
_SEARCH = {"group": {"metadata.feature": "search"}, **_SUMS}
_READ = {
    "group": {"line": "cacheRead"}, "name": "Cache read", "costUSD": 0.006144, "quantity": 20_480, "measured": "tokens",
}  # fmt: skip


def _one_day(by: str, row: Mapping[str, object], **sums: float) -> dict[str, object]:
    """Return an answer as an example: one group on one day of a month."""
    day = {"start": "2026-11-20T00:00:00Z", "end": "2026-11-21T00:00:00Z", "groups": [row]}
    time = {"start": "2026-11-01T00:00:00Z", "end": "2026-12-01T00:00:00Z", "bucketWidth": "1d", "groupBy": [by]}
    return {"ok": True, **time, "buckets": [day], "totals": [row], **sums, "hasMore": False, "nextPage": None}


USAGE = Operation(
    tag="Metrics",
    query=UsageQuery,
    answers={
        200: Answer(
            "The sums of each group.",
            (
                Content(
                    (UsageAnswer, LinesAnswer),
                    {
                        "Cost by feature, one day of many": _one_day("metadata.feature", _SEARCH),
                        "Cost by line, one day of many": _one_day("line", _READ, costUSD=0.006144, runs=40, unpriced=0),
                    },
                    also_as=(CSV,),
                ),
            ),
            headers={"Link": "Of CSV: the URL of the next page, rel=next, where there is one."},
        )
    },
    raises=(InvalidRange, ProjectNotInferred, InvalidPayload, Forbidden, DimensionNotTracked, QueryTooSlow),
)


@blueprint.get("/usage")
@project_key
@documents(USAGE)
async def get_usage() -> ResponseReturnValue:
    """Group costs, counts, tokens, cache savings and percentiles by any dimension, in buckets of any width.

    Filters have the names of dimensions, such as `model` or `metadata.feature`. Totals are exact. A question
    that would have to read too many single runs gets the error `dimension_not_tracked`. `groupBy=line` answers with the lines
    of costs instead: input, cache reads, output, searches, service tiers and so on, which add up to the cost.
    """
    project_id = requested_project()
    demand(actor(), Scope.METRICS_READ, project_id)
    asked = read_request(request.args, project_id, services().clock())
    async with services().cells.snapshots(project_id) as snapshots, services().open_control(snapshots) as control:
        answer = await read_answer(snapshots, control, asked)
        names = await _names(control, answer)
        span = asked.question.timeline.span
        deleted = {} if project_id else await read_deleted(snapshots, span.since, span.until)
    page = _Page(asked, answer)
    if asked.format is UsageFormat.CSV:
        demand_all()
        return _as_csv(page)
    return reply(_as_json(page, names, deleted))


async def read_answer(snapshots: Snapshots, control: Connection, asked: UsageRequest) -> GroupAnswer | CostLines:
    """Answer a query. Raises `DimensionNotTracked`."""
    if asked.has_lines:
        return await read_cost_lines(snapshots, control, asked.question)
    return await read_groups([GroupRowReader.of(snapshot) for snapshot in snapshots.every], asked.question)


async def _names(control: Connection, answer: GroupAnswer | CostLines) -> Mapping[UUID, str] | None:
    """Read the names of an answer's keys; None for other groups."""
    return await names_of(control, _key_ids(answer)) if KEY in answer.question.by else None


class _Page:
    """The buckets of an answer that a page has, and the next one."""

    def __init__(self, asked: UsageRequest, answer: GroupAnswer | CostLines) -> None:
        self.asked, self.answer = asked, answer
        buckets = max(1, PAGE_ROWS // max(1, len(answer.groups)))
        first = (asked.page - 1) * buckets
        count = len(answer.question.timeline.starts)
        self.numbers = range(first, min(first + buckets, count))
        self.next = f"{asked.page + 1}{asked.page_suffix}" if first + buckets < count else None


def rows_of(answer: GroupAnswer, number: int) -> Iterator[tuple[Group, Sums]]:
    """Yield the groups of a bucket that have runs; without dimensions the one there is."""
    for group in _groups(answer):
        found = answer.slices.get((number, group))
        if found is not None and found.totals.runs:
            yield group, found
        elif not group:
            yield group, _NO_SUMS


def _groups(answer: GroupAnswer) -> tuple[Group, ...]:
    return tuple(answer.groups) if answer.question.by else ((),)


def _lines_of(answer: CostLines, dimensions: tuple[str, ...], number: int) -> Iterator[LineGroup]:
    """Yield the lines of the groups in a bucket."""
    for group in answer.groups:
        if (found := answer.slices.get((number, group))) is not None:
            yield from line_groups(dimensions, group, found)


def _as_json(page: _Page, names: Mapping[UUID, str] | None, deleted: DeletedCosts) -> UsageAnswer | LinesAnswer:
    question, answer, dimensions = page.answer.question, page.answer, page.asked.group_by
    spans = [(number, question.timeline.bucket(number)) for number in page.numbers]
    common: dict[str, Any] = {
        "start": utc(question.timeline.span.since),
        "end": utc(question.timeline.span.until),
        "bucket_width": page.asked.width.value,
        "group_by": dimensions,
        "overlapping": True if answer.question.is_overlapping else UNSET,
        "key_names": UNSET if names is None else {str(id_): name for id_, name in names.items()},
        "has_more": page.next is not None,
        "next_page": page.next,
        "missing_cells": missing() or UNSET,
        "deleted_usd": deleted_usd(deleted),
    }
    if isinstance(answer, CostLines):
        lines = (one for group, found in answer.groups.items() for one in line_groups(dimensions, group, found))
        return LinesAnswer(
            buckets=tuple(
                LineBucket(utc(span.since), utc(span.until), tuple(_lines_of(answer, dimensions, number)))
                for number, span in spans
            ),
            totals=tuple(lines),
            cost_usd=as_json(answer.total.cost_usd),
            runs=answer.total.runs,
            unpriced=answer.total.unpriced,
            **common,
        )
    return UsageAnswer(
        buckets=tuple(
            UsageBucket(
                utc(span.since),
                utc(span.until),
                tuple(group_of(dimensions, group, sums) for group, sums in rows_of(answer, number)),
            )
            for number, span in spans
        ),
        totals=tuple(group_of(dimensions, group, answer.groups.get(group, _NO_SUMS)) for group in _groups(answer)),
        **common,
    )


def _key_ids(answer: GroupAnswer | CostLines) -> list[UUID]:
    place = answer.question.by.index(KEY)
    values = dict.fromkeys(group[place] for group in answer.groups)
    return [UUID(value) for value in values if value is not None and value != OTHER]


def group_of(dimensions: tuple[str, ...], group: Group, sums: Sums) -> UsageGroup:
    """Return the sums of a group; `dimensions` are the names of groupBy."""
    totals, latency = sums.totals, sums.latency
    is_known = latency is not None or not totals.runs
    return answered(
        UsageGroup,
        totals,
        group=dict(zip(dimensions, map(value_of, group), strict=True)),
        p50_latency_ms=(latency.p50_ms if latency else 0.0) if is_known else None,
        p95_latency_ms=(latency.p95_ms if latency else 0.0) if is_known else None,
    )


def _as_csv(page: _Page) -> Reply:
    headers = {"Content-Type": f"{CSV}; charset=utf-8", "Cache-Control": "no-store", "Vary": "Accept-Encoding"}
    if page.next is not None:
        query = [(name, value) for name, value in request.args.items(multi=True) if name != "page"]
        headers["Link"] = f'<{request.root_path}{request.path}?{urlencode([*query, ("page", page.next)])}>; rel="next"'
    return Reply("".join(csv_parts(page.answer, page.asked.group_by, page.numbers)).encode(), 200, headers)


def csv_parts(
    answer: GroupAnswer | CostLines, dimensions: tuple[str, ...], numbers: Iterable[int] | None = None
) -> Iterator[str]:
    """Yield these buckets, or all, as parts of a file with a row for each group; a value that is null is blank."""
    timeline = answer.question.timeline
    columns = msgspec.structs.fields(LineGroup if isinstance(answer, CostLines) else UsageGroup)[1:]
    yield csv_of([["start", "end", *map(guarded, dimensions), *(column.encode_name for column in columns)]])
    for number in range(len(timeline.starts)) if numbers is None else numbers:
        moments = [*map(utc, timeline.bucket(number))]
        rows = (
            [
                *moments,
                *(guarded(one or "") for one in row.group.values()),
                *(_cell(getattr(row, column.name)) for column in columns),
            ]
            for row in _rows(answer, dimensions, number)
        )
        yield csv_of(rows)


def _rows(
    answer: GroupAnswer | CostLines, dimensions: tuple[str, ...], number: int
) -> Iterator[UsageGroup] | Iterator[LineGroup]:
    if isinstance(answer, CostLines):
        return _lines_of(answer, dimensions, number)
    return (group_of(dimensions, group, sums) for group, sums in rows_of(answer, number))


def _cell(value: Any) -> str:  # noqa: ANN401  # A field of a group.
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    return "" if value is None else str(value)
