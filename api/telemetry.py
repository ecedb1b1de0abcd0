"""GET /metrics, for Prometheus: what the workers counted, and how things stand now."""

import asyncio
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily, Metric
from quart import Blueprint, Response
from quart.typing import ResponseReturnValue

from api.access import AccessRule, access
from api.auth import DEVELOPER, is_any_of
from api.current import incoming, services
from api.limits import wrong_keys_limited
from api.request import Request
from runtally import COMMIT, __version__
from runtally.archive.queries import Contents, select_contents
from runtally.audit import Actor, ActorKind
from runtally.errors import InvalidKey, MissingKey, NotConfigured, StoreUnavailable
from runtally.pricing.book import LivePrices
from runtally.reporting.outbox_queries import COUNTED, RelayStatus, get_relay_status
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
    cells = services().cells
    found = dict(zip(cells.names, await asyncio.gather(*map(_state_of, cells.names)), strict=True))
    body, content_type = exposition(
        incoming().headers.get("accept", ""), (*_service(services().prices), *_cells(found))
    )
    return Response(body, content_type=content_type, headers={"Cache-Control": "no-store"})


@dataclass(frozen=True, slots=True)
class _State:
    relay: RelayStatus
    archive: Contents


async def _state_of(name: str) -> _State | None:
    """Return how things stand in a cell; None while it is away."""
    try:
        async with services().cells.intake_of(name) as connection:
            return _State(await get_relay_status(connection), await select_contents(connection))
    except StoreUnavailable:
        return None


def _gauge(name: str, meaning: str, values: Mapping[str, float]) -> Metric:
    """Return a gauge of each cell, or of the only one."""
    if services().cells.directory is None:
        return GaugeMetricFamily(name, meaning, next(iter(values.values())))
    gauge = GaugeMetricFamily(name, meaning, labels=["cell"])
    for cell, value in values.items():
        gauge.add_metric([cell], value)
    return gauge


def _service(prices: LivePrices) -> Iterator[Metric]:
    build = {"version": __version__, "commit": COMMIT, "python": platform.python_version()}
    yield InfoMetricFamily("runtally_build", "What is running.", build)
    yield InfoMetricFamily("runtally_price_book", "Prices of the answering worker.", {"version": prices.book.version})
    if prices.age_seconds is not None:
        yield GaugeMetricFamily(
            "runtally_price_book_age_seconds",
            "Time since the answering worker last saw that its prices are the registry's.",
            prices.age_seconds,
        )


def _cells(found: Mapping[str, _State | None]) -> Iterator[Metric]:
    up = {cell: float(state is not None) for cell, state in found.items()}
    yield _gauge("runtally_database_up", "1 if the database answers.", up)
    states = {cell: state for cell, state in found.items() if state is not None}
    for name, (meaning, value) in _GAUGES.items() if states else ():
        yield _gauge(name, meaning, {cell: value(state) for cell, state in states.items()})


def _lag(state: _State) -> float:
    oldest_at = state.relay.oldest_at
    return max((services().clock() - oldest_at).total_seconds(), 0) if oldest_at else 0


_GAUGES: Mapping[str, tuple[str, Callable[[_State], float]]] = {
    "runtally_relay_queue_runs": (
        f"Runs that wait for the reporting table; {COUNTED + 1} stands for any number above {COUNTED}.",
        lambda state: state.relay.waiting,
    ),
    "runtally_relay_lag_seconds": (
        f"How long the oldest of them has waited; at least, where they are more than {COUNTED}.",
        _lag,
    ),
    "runtally_relay_parked_runs": (
        "Runs that the relay gave up on until retried.",
        lambda state: state.relay.parked,
    ),
    "runtally_archive_files": ("Files of the archive.", lambda state: state.archive.files),
    "runtally_archive_stored_runs": ("Runs in these files.", lambda state: state.archive.runs),
    "runtally_archive_size_bytes": ("Size of these files.", lambda state: state.archive.size_bytes),
    "runtally_archive_left_over_files": (
        "Files that are being written, or are to be deleted and wait for that.",
        lambda state: state.archive.left_over,
    ),
}
"""The gauges of cells that answer."""
