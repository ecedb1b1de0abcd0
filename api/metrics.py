"""GET /api/metrics."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.auth import project_key
from api.cells import MissingCells, OfCell
from api.current import actor, services
from api.operation import Answer, Content, Operation, documents
from api.reply import Success, reply, utc
from runtally.access.scopes import Scope, demand
from runtally.cells.request import missing
from runtally.errors import (
    Detail,
    Forbidden,
    InvalidInterval,
    InvalidPayload,
    InvalidRange,
    ProjectNotInferred,
    QueryTooSlow,
)
from runtally.fields import ProjectId, camel, parse_project_id
from runtally.money import as_json, plain
from runtally.usage.dimensions import BY_MODEL, OTHER, OTHER_NAME, Dimension
from runtally.usage.filter import RunFilter
from runtally.usage.plan import LatencyDetail, Question
from runtally.usage.read import MOST_GROUPS, read_totals
from runtally.usage.reader import UsageReader
from runtally.usage.summary import Point, Summary
from runtally.usage.window import INTERVALS, Range, Window, parse_interval

blueprint = Blueprint("metrics", __name__, url_prefix="/api")

MEASURES = ("runs", "errors", "timeouts", "cost_usd", "input_tokens", "output_tokens")
AGGREGATE = {"1": True, "true": True, "0": False, "false": False}

UsDollars = Annotated[
    msgspec.Raw, Meta(description="US dollars, every digit exact.", extra_json_schema={"type": "number", "minimum": 0})
]
Count = Annotated[int, Meta(ge=0)]
Moment = Annotated[str, Meta(description="Start of the bucket, UTC.", extra_json_schema={"format": "date-time"})]
ErrorRate = Annotated[float, Meta(ge=0, le=1, description="Share of the runs that ended in an error or a timeout.")]
P95 = Annotated[
    float,
    Meta(ge=0, description="95th percentile by nearest rank, within 1 %; 0 without runs that report a latency."),
]


OfProject = Annotated[ProjectId | None, Meta(description="The project; a project key knows its own.")]
OverAll = Annotated[
    str | None,
    Meta(
        description="`1` or `true`: over all projects, whatever projectId says. Needs an admin key.",
        extra_json_schema={"enum": list(AGGREGATE)},
    ),
]


class MetricsQuery(msgspec.Struct, frozen=True, rename=camel):
    """The runs, the time and the length of buckets."""

    range: Annotated[Range, Meta(description="How far back; the last bucket holds now.")] = Range.WEEK
    interval: Annotated[
        str | None,
        Meta(
            description="Length of a bucket, instead of 15m for 24h, 1h for 7d and 6h for 30d.",
            extra_json_schema={"enum": list(INTERVALS)},
        ),
    ] = None
    project_id: OfProject = None
    aggregate: OverAll = None
    cell: OfCell | None = None


class MetricsPoint(msgspec.Struct, frozen=True, rename=camel):
    """The runs of one bucket."""

    t: Moment
    cost_usd: UsDollars
    error_rate: ErrorRate
    p95_latency_ms: P95
    runs: Count
    tokens_in: Count
    tokens_out: Count


class SeriesEntry(msgspec.Struct, frozen=True, rename=camel):
    """A point in short."""

    t: Moment
    cost_usd: UsDollars
    error_rate: ErrorRate
    p95_latency_ms: P95


class MetricsAnswer(Success, frozen=True, kw_only=True, rename=camel):
    """Every bucket of the range, empty ones too; the sums over points, providers and models are equal."""

    points: tuple[MetricsPoint, ...]
    cost_by_provider: dict[str, UsDollars]
    cost_by_model: dict[str, UsDollars]
    series: tuple[SeriesEntry, ...]
    missing_cells: MissingCells | UnsetType = UNSET


_SHORT = {"t": "2026-11-20T09:00:00Z", "costUSD": 0.0183, "errorRate": 0.25, "p95LatencyMs": 2140}
METRICS = Operation(
    tag="Metrics",
    query=MetricsQuery,
    answers={
        200: Answer(
            "The metrics.",
            (
                Content(
                    (MetricsAnswer,),
                    {
                        "One bucket of many": {
                            "ok": True,
                            "points": [{**_SHORT, "runs": 4, "tokensIn": 4800, "tokensOut": 1400}],
                            "costByProvider": {"anthropic": 0.0183},
                            "costByModel": {"claude-sonnet-4-5": 0.0183},
                            "series": [_SHORT],
                        }
                    },
                ),
            ),
        )
    },
    raises=(InvalidRange, InvalidInterval, ProjectNotInferred, InvalidPayload, Forbidden, QueryTooSlow),
)


@blueprint.get("/metrics")
@project_key
@documents(METRICS)
async def get_metrics() -> ResponseReturnValue:
    """Read cost, runs, errors, p95 latency and tokens over time, for one project or for all.

    Every bucket of the range is there; the sums over points, providers and models agree to the last digit. Of more than 200 models,
    the dearest are listed, and all others are `(other)`; providers likewise.
    """
    range_ = Range.parse(request.args.get("range"))
    interval = parse_interval(request.args.get("interval"))
    project_id = requested_project()
    demand(actor(), Scope.METRICS_READ, project_id)
    window = Window.of(range_, services().clock(), interval)
    question = Question(
        window, RunFilter(project_id=project_id), BY_MODEL, MEASURES, LatencyDetail.BUCKETS, most=MOST_GROUPS
    )
    async with services().cells.snapshots(project_id) as snapshots:
        reader = UsageReader(snapshots, window.now, project_id, window.start)
        summary = await reader.summary(question)
        costs = [await _costs(reader, summary, question.filter, dimension) for dimension in BY_MODEL]
    return reply(_answer(_times(window.start, window.interval, window.length), summary, *costs))


async def _costs(
    reader: UsageReader, summary: Summary, run_filter: RunFilter, dimension: Dimension
) -> dict[str, UsDollars]:
    """Return the cost of each provider or model; of very many, that of the dearest and that of all others."""
    if summary.is_folded:
        summary = await read_totals(reader, summary.window, run_filter, (dimension,), limit=MOST_GROUPS)
    return {
        OTHER_NAME if name == OTHER else name: as_json(totals.cost_usd)
        for name, totals in summary.list_by(dimension).items()
    }


def requested_project() -> str | None:
    """None for all projects. Raises `ProjectNotInferred`, and `InvalidPayload` for what no parameter can be."""
    aggregate = AGGREGATE.get(request.args.get("aggregate", "0").casefold())
    if aggregate is None:
        raise InvalidPayload("Use aggregate=1, or leave it out.", details=(Detail("aggregate", "must be 1 or true"),))
    if aggregate:
        return None
    project_id = request.args.get("projectId") or actor().project_id
    if not project_id:
        raise ProjectNotInferred
    return parse_project_id(project_id)


# A window is requested many times until its next bucket begins.
@lru_cache(maxsize=16)
def _times(start: datetime, interval: timedelta, length: int) -> tuple[str, ...]:
    """Return the start of each bucket."""
    return tuple(utc(start + number * interval) for number in range(length))


def _answer(
    times: Sequence[str], summary: Summary, by_provider: dict[str, UsDollars], by_model: dict[str, UsDollars]
) -> MetricsAnswer:
    points = tuple(map(_point, times, summary.points))
    return MetricsAnswer(
        points=points,
        cost_by_provider=by_provider,
        cost_by_model=by_model,
        series=tuple(SeriesEntry(each.t, each.cost_usd, each.error_rate, each.p95_latency_ms) for each in points),
        missing_cells=missing() or UNSET,
    )


def _point(at: str, point: Point) -> MetricsPoint:
    totals = point.totals
    return MetricsPoint(
        t=at,
        cost_usd=msgspec.Raw(plain(totals.cost_usd)),
        error_rate=totals.error_rate,
        p95_latency_ms=point.latency.p95_ms,
        runs=totals.runs,
        tokens_in=totals.input_tokens,
        tokens_out=totals.output_tokens,
    )
