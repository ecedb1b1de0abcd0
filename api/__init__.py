"""JSON over HTTP: the routes under /api."""

from quart import Quart

from api import health, ingest, metrics


def register(app: Quart) -> None:
    for module in (ingest, metrics, health):
        app.register_blueprint(module.blueprint)
