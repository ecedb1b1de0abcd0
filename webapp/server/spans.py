"""The service's own traces: a span per request, exported to OTEL_EXPORTER_OTLP_ENDPOINT.

The variables are OpenTelemetry's own, and programs that send runs to this service set the same ones: so an address that is ours is
left alone, and what comes by OTLP never makes a span, whatever a collector between sends back.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

from api.exchange import Exchange
from runtally.extras import Extra
from runtally.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PARENTS = {b"traceparent", b"tracestate"}
_OTLP_ROUTES = ("/v1/", "/api/otlp/")
_LOCAL = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104  # Compared, not listened on.
_PORTS = {"http": 80, "https": 443}

log = structlog.get_logger()


class Spans:
    """Sends a span for each request, from a thread of its own."""

    def __init__(self, provider: "TracerProvider") -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("runtally")

    def recorder(self, headers: Iterable[tuple[bytes, bytes]]) -> Callable[[Exchange], None]:
        """Return what adds the span of a request that begins now, once it is over; its parent is the caller's, if it names one."""
        parents = {name.decode(): value.decode("latin-1") for name, value in headers if name in _PARENTS}
        return partial(self._add, parents, time.time_ns())

    def _add(self, parents: Mapping[str, str], started_ns: int, exchange: Exchange) -> None:
        from opentelemetry.trace import SpanKind, StatusCode  # noqa: PLC0415  # An extra.
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415  # As above.

        if exchange.route.startswith(_OTLP_ROUTES):
            return
        span = self._tracer.start_span(
            f"{exchange.method} {exchange.route}",
            context=TraceContextTextMapPropagator().extract(parents),
            kind=SpanKind.SERVER,
            start_time=started_ns,
            attributes={
                "http.request.method": exchange.method,
                "http.route": exchange.route,
                "http.response.status_code": exchange.status,
                "runtally.request_id": exchange.request_id,
            },
        )
        if exchange.error is not None:
            span.set_attribute("error.type", exchange.error)
            span.set_status(StatusCode.ERROR)
        span.end(time.time_ns())

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def spans_of(settings: Settings) -> Spans | None:
    """Return where spans go; None unless an address is set, is not our own, and the library is installed."""
    endpoint = next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), None)
    if endpoint is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if is_own(endpoint, settings):
        log.info("own_traces_are_not_sent", why="OTEL_EXPORTER_OTLP_ENDPOINT is this service itself")
        return None
    if not Extra.OTEL.is_installed:
        log.warning("own_traces_are_not_sent", why=f"they need the extra otel: {Extra.OTEL.command}")
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  # An extra.
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  # As above.
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # As above.
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  # As above.

    name = os.environ.get("OTEL_SERVICE_NAME", "runtally")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Spans(provider)


def is_own(endpoint: str, settings: Settings) -> bool:
    """Return whether an address is that of this service."""
    theirs = _place(endpoint)
    ours = {_place(settings.own_url()), *([_place(settings.public_url)] if settings.public_url else [])}
    return theirs in ours


def _place(url: str) -> tuple[str, int | None]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return "localhost" if host in _LOCAL else host, parts.port or _PORTS.get(parts.scheme)
