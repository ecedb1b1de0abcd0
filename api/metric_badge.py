"""GET /api/badge/project/{id}."""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta
from quart import Blueprint

from api.access import public
from api.badge import CACHE_CONTROL, CONVERTER, POLICY, SVG, drawn, unless_known
from api.endpoint import endpoint
from api.operation import Answer, Content, Operation, documents
from api.reply import Reply
from api.request import Request
from runtally.access.queries import select_badge_access
from runtally.errors import QueryTooSlow, StoreBusy, StoreUnavailable
from runtally.experiments.badge import Badge, Colour, Style, badge_with
from runtally.fields import is_project_id, trimmed
from runtally.services import Services
from runtally.usage.read import report_question
from runtally.usage.reader import UsageReader
from runtally.usage.summary import Summary
from runtally.usage.window import Range, Window

blueprint = Blueprint("metric_badge", __name__, url_prefix="/api/badge")

UNKNOWN = "unknown"
BLUE = "#007ec6"
"""What badge services paint a plain figure on."""
_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS


class Metric(StrEnum):
    """The metrics that a badge of a project can show."""

    COST = "cost"
    RUNS = "runs"
    ERROR_RATE = "error-rate"
    P95 = "p95"


LABELS = {Metric.COST: "LLM cost", Metric.RUNS: "LLM runs", Metric.ERROR_RATE: "LLM errors", Metric.P95: "LLM p95"}


class MetricBadgePath(msgspec.Struct, frozen=True):
    """The project of a badge, as its path names it."""

    project_id: Annotated[str, Meta(description="The `projectId` of its runs, with `.svg` after it.", min_length=1)]


class MetricBadgeQuery(msgspec.Struct, frozen=True):
    """The metric and the style of a badge."""

    metric: Annotated[str, Meta(description="`cost`, `runs`, `error-rate` or `p95`; `cost` without it.")] = Metric.COST
    range: Annotated[str, Meta(description="`24h`, `7d` or `30d`; `30d` without it.")] = Range.MONTH
    token: Annotated[
        str | None, Meta(description="The token of the project's charts, where its badges are not public.")
    ] = None
    label: Annotated[str | None, Meta(description="Text on the left, cut at 64 characters; none when empty.")] = None
    style: Annotated[str | None, Meta(description="`flat`, `flat-square` or `for-the-badge`; any other is flat.")] = (
        None
    )


METRIC_BADGE = Operation(
    tag="Metrics",
    path=MetricBadgePath,
    query=MetricBadgeQuery,
    answers={
        200: Answer(
            "The badge. It says `unknown` where the project is not there or not open to the reader, and for a metric or a "
            "range that is none.",
            (Content((str,), {"An image": "<svg>…</svg>"}, SVG),),
            {"ETag": "Changes with the answer.", "Cache-Control": "A badge may be kept for a minute."},
        ),
        304: Answer("The badge is the one that `If-None-Match` names."),
    },
    raises=(StoreUnavailable, StoreBusy, QueryTooSlow),
)


@blueprint.get(f"/project/<{CONVERTER}:project_id>")
@endpoint
@public
@documents(METRIC_BADGE)
async def get_metric_badge(request: Request, project_id: str) -> Reply:
    """Draw a badge of a project's cost, runs, error rate or latency, for a README.

    Projects choose in their settings whether everybody sees their badges; otherwise the token of their charts is needed.
    """
    badge = await _badge(request.services, trimmed(project_id.removesuffix(".svg")), request.query)
    body = drawn(badge)
    headers = {
        "Content-Type": SVG,
        "Cache-Control": CACHE_CONTROL,
        "Content-Security-Policy": POLICY,
        # The answer may be packed: a cache must not give that to who cannot unpack it, and the tag is of both.
        "Vary": "Accept-Encoding",
        "ETag": f'W/"{hashlib.sha256(body).hexdigest()[:32]}"',
    }
    return unless_known(request, Reply(body, 200, headers))


async def _badge(services: Services, project_id: str, args: Mapping[str, str]) -> Badge:
    style = Style.parse(args.get("style"))
    try:
        metric, range_ = Metric(args.get("metric", Metric.COST)), Range(args.get("range", Range.MONTH))
    except ValueError:
        return badge_with(UNKNOWN, Colour.GREY.code, args.get("label", "LLM"), style)
    label = args.get("label", f"{LABELS[metric]}, {range_}")
    now = services.clock()
    async with services.cells.snapshots(project_id) as snapshots:
        access = await select_badge_access(snapshots.connection, project_id) if is_project_id(project_id) else None
        if access is None or not (access.is_public or _has_token(access.token, args.get("token"))):
            return badge_with(UNKNOWN, Colour.GREY.code, label, style)
        summary = await _summary(UsageReader.of_page(snapshots, _window(range_, now), project_id), range_)
    text = _text(metric, summary)
    return badge_with(text or "no runs", BLUE if text else Colour.GREY.code, label, style)


def _has_token(known: str | None, sent: str | None) -> bool:
    return known is not None and sent is not None and hmac.compare_digest(known.encode(), sent.encode())


def _window(range_: Range, now: datetime) -> Window:
    return Window.of(range_, now, range_.chart_interval)


async def _summary(reader: UsageReader, range_: Range) -> Summary:
    """Read what a report reads, so that the memo can serve both."""
    return await reader.summary(report_question(reader, _window(range_, reader.now)))


def _text(metric: Metric, summary: Summary) -> str | None:
    """Return the figure as the badge shows it; None where there is nothing to show."""
    total = summary.total
    if not total.runs:
        return None
    match metric:
        case Metric.COST:
            return None if total.runs == total.unpriced else _usd(total.cost_usd)
        case Metric.RUNS:
            return f"{total.runs:,}"
        case Metric.ERROR_RATE:
            return f"{total.error_rate:.2%}"
        case Metric.P95:
            return _duration(summary.latency.p95_ms) if summary.latency.p95_ms else None


def _usd(amount: Decimal) -> str:
    return f"${amount:,.2f}" if amount >= Decimal("0.1") or not amount else f"${amount:.4f}"


def _duration(milliseconds: float) -> str:
    if milliseconds < _SECOND_MS:
        return f"{milliseconds:.0f} ms"
    if milliseconds < _MINUTE_MS:
        return f"{milliseconds / _SECOND_MS:.1f} s"
    return f"{milliseconds / _MINUTE_MS:.1f} min"
