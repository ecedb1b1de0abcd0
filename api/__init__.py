"""JSON over HTTP: the routes under /api, and /metrics for monitoring."""

from quart import Quart

from api import badge, docs, health, ingest, metrics, pg_sync, telemetry


def register(app: Quart) -> None:
    app.url_map.converters[badge.CONVERTER] = badge.ExperimentId
    for module in (ingest, metrics, pg_sync, badge, health, docs, telemetry):
        app.register_blueprint(module.blueprint)


def serves(path: str) -> bool:
    """Whether an error at this path is answered as JSON, to a program, and not to people."""
    return path in {"/api", "/metrics"} or path.startswith("/api/")
