"""Create the application and wire its parts. The hooks before and after a route are here, in their order."""

from collections.abc import AsyncGenerator

from quart import Quart, Response, request
from quart.typing import ResponseReturnValue

import api
import api.errors
import webapp.errors
import webapp.pages.blueprints
from api import limits
from api.access import enforce_access
from api.current import EXTENSION
from runtally.errors import SettingsError
from runtally.services import Services
from runtally.settings import Settings
from webapp import assets, caching, currency, form, project_pages, rendering, security, sessions, zone
from webapp.charts import specs
from webapp.server import bodies, heads, hosts, lingering, tracing
from webapp.server.fast_path import FastPath
from webapp.server.security_headers import SecurityHeaders
from webapp.server.tracing import Application


def create_app(settings: Settings) -> Quart:
    """Create the application for these settings, which must name the database."""
    app = Quart("runtally", template_folder=None, static_folder=None)
    app.request_class = bodies.sized_request(settings)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    # A file of prices that was previewed comes back as a field.
    app.config["MAX_FORM_MEMORY_SIZE"] = settings.max_body_bytes
    # OPTIONS would need a key and answer as HTML; without it, 405 names the methods to anyone.
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    _keep_services(app, settings)
    sessions.set_up(app, settings)

    app.before_request(tracing.begin)
    app.before_request(zone.begin)
    app.before_request(currency.begin)
    app.before_request(hosts.refuse_other_spellings)
    app.before_request(hosts.check_host)
    app.before_request(security.check_csrf)
    app.before_request(rendering.choose_cells)
    app.before_request(enforce_access)
    app.before_request(form.refuse_large_forms)
    app.before_request(project_pages.refuse_unknown)
    limits.register(app)

    api.register(app)
    webapp.pages.blueprints.register(app)
    assets.register(app)
    app.register_error_handler(Exception, _respond_to_error)

    # Quart runs these last to first.
    app.after_request(assets.compress)
    app.after_request(caching.confirm)
    app.after_request(_prepare_charts)
    app.teardown_request(bodies.forget)
    _add_middleware(app, settings)
    return app


def _add_middleware(app: Quart, settings: Settings) -> None:
    within_budget = bodies.BodyBudget(app.asgi_app, settings)  # type: ignore[arg-type]
    traced = tracing.Tracing(SecurityHeaders(within_budget))
    served: Application = heads.BoundedHeads(lingering.LeastPace(lingering.Lingering(traced)))
    if settings.base_path:
        hosts.demand_other_path(app, settings.base_path)
        served = hosts.BelowPath(served, settings.base_path)
    # The way to add ASGI middleware to Quart.
    app.asgi_app = FastPath(served, app, settings)  # type: ignore[assignment, method-assign]


def _keep_services(app: Quart, settings: Settings) -> None:
    database_url = settings.database_url
    if database_url is None:
        raise SettingsError("Set DATABASE_URL, or start with `runtally serve`, which brings a Postgres of its own.")

    @app.while_serving
    async def _() -> AsyncGenerator[None, None]:
        async with Services.opened(settings, database_url) as services:
            app.extensions[EXTENSION] = services
            yield


async def _prepare_charts(response: Response) -> Response:
    """Prepare charts after the page is sent: its reader will request them next, and the page needs the processor first."""
    if not api.serves(request.path):
        specs.begin()
    return response


async def _respond_to_error(error: Exception) -> ResponseReturnValue:
    """Answer an error of the API as JSON or for OTLP clients, of a page as HTML."""
    if not api.serves(request.path):
        return await webapp.errors.respond(error)
    return api.refusal_at(request.path, request.headers.get("Content-Type", ""), error)
