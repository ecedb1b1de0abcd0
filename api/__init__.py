"""HTTP for programs: the routes under /api, those of OTLP under /v1, and /metrics for monitoring."""

from quart import Quart

from api import (
    audit,
    badge,
    bills,
    erasures,
    health,
    ingest,
    metric_badge,
    metrics,
    notes,
    openapi,
    otlp,
    otlp_answers,
    pg_sync,
    runs,
    telemetry,
    usage,
)
from api.errors import refusal
from api.managed import config
from api.managed import routes as managed
from api.reply import Reply


def register(app: Quart) -> None:
    app.url_map.converters[badge.CONVERTER] = badge.ExperimentId
    for module in (
        ingest,
        otlp,
        metrics,
        usage,
        bills,
        notes,
        erasures,
        managed,
        config,
        audit,
        runs,
        pg_sync,
        badge,
        metric_badge,
        health,
        openapi,
        telemetry,
    ):
        app.register_blueprint(module.blueprint)


def serves(path: str) -> bool:
    """Return whether an error at this path is answered for programs instead of people."""
    return path in {"/api", "/metrics"} or path.startswith("/api/") or otlp_answers.serves(path)


def refusal_at(path: str, content_type: str, error: Exception) -> Reply:
    """Build the error answer in the format of this path."""
    if otlp_answers.serves(path):
        return otlp_answers.refused(error, as_json=otlp_answers.is_json(content_type))
    return refusal(error)
