"""GET /metrics, for Prometheus: what the workers counted, and how things stand now."""

import platform
from collections.abc import Iterator

from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily, Metric
from quart import Blueprint, Response
from quart.typing import ResponseReturnValue

from api.access import AccessRule, access
from api.auth import DEVELOPER, is_any_of
from api.current import incoming, services
from api.limits import wrong_keys_limited
from api.request import Request
from runtally import __version__
from runtally.archive.queries import Contents, select_contents
from runtally.audit import Actor, ActorKind
from runtally.errors import InvalidKey, MissingKey, NotConfigured, StoreUnavailable
from runtally.pricing.book import LivePrices
from runtally.reporting.outbox_queries import COUNTED
from runtally.reporting.read import RelayStatus, get_relay_status
from runtally.telemetry import exposition

blueprint = Blueprint("telemetry", __name__)

_SCRAPER = Actor(ActorKind.SYSTEM, "scraper", frozenset())


async def scraper(request: Request) -> Actor:
    """Return the holder of METRICS_TOKEN; in dev mode every caller. Raises `NotConfigured`, `MissingKey`, `InvalidKey`."""
    settings = request.services.settings
    if settings.service_dev_mode:
        return DEVELOPER
    if not settings.metrics_token:
        raise NotConfigured("The server has no METRICS_TOKEN; ask its operator to set it.")
    sent = request.bearer_key
    if sent is None:
        raise MissingKey("Send the metrics token in the header Authorization: Bearer <token>.")
    async with wrong_keys_limited(request):
        if not is_any_of(sent, settings.metrics_token):
            raise InvalidKey
    return _SCRAPER


metrics_token = access(AccessRule("metrics token", scraper))


@blueprint.get("/metrics")
@metrics_token
async def get_telemetry() -> ResponseReturnValue:
    """Everything that monitoring wants to know, in Prometheus' text format or OpenMetrics.

    Without the database the rest is still answered, and `runtally_database_up` is 0.
    """
    relay, archive = None, None
    try:
        async with services().cells.of(None).intake.connection() as connection:
            relay = await get_relay_status(connection)
            archive = await select_contents(connection)
    except StoreUnavailable:
        pass
    body, content_type = exposition(
        incoming().headers.get("accept", ""), (*_service(services().prices), *_relay(relay), *_archive(archive))
    )
    return Response(body, content_type=content_type, headers={"Cache-Control": "no-store"})


def _service(prices: LivePrices) -> Iterator[Metric]:
    build = {"version": __version__, "python": platform.python_version()}
    yield InfoMetricFamily("runtally_build", "What is running.", build)
    yield InfoMetricFamily("runtally_price_book", "Prices of the answering worker.", {"version": prices.book.version})
    if prices.age_seconds is not None:
        yield GaugeMetricFamily(
            "runtally_price_book_age_seconds",
            "Time since the answering worker last saw that its prices are the registry's.",
            prices.age_seconds,
        )


def _relay(status: RelayStatus | None) -> Iterator[Metric]:
    yield GaugeMetricFamily("runtally_database_up", "1 if the database answers.", 0 if status is None else 1)
    if status is None:
        return
    lag = (services().clock() - status.oldest_at).total_seconds() if status.oldest_at else 0
    yield GaugeMetricFamily(
        "runtally_relay_queue_runs",
        f"Runs that wait for the reporting table; {COUNTED + 1} stands for any number above {COUNTED}.",
        status.waiting,
    )
    yield GaugeMetricFamily(
        "runtally_relay_lag_seconds",
        f"How long the oldest of them has waited; at least, where they are more than {COUNTED}.",
        max(lag, 0),
    )
    yield GaugeMetricFamily(
        "runtally_relay_parked_runs", "Runs that the relay gave up on until retried.", status.parked
    )


def _archive(contents: Contents | None) -> Iterator[Metric]:
    if contents is None:
        return
    yield GaugeMetricFamily("runtally_archive_files", "Files of the archive.", contents.files)
    yield GaugeMetricFamily("runtally_archive_stored_runs", "Runs in these files.", contents.runs)
    yield GaugeMetricFamily("runtally_archive_size_bytes", "Size of these files.", contents.size_bytes)
    yield GaugeMetricFamily(
        "runtally_archive_left_over_files",
        "Files that are being written, or are to be deleted and wait for that.",
        contents.left_over,
    )
