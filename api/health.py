"""GET /api/health and /api/health/live."""

from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.access import public
from api.current import services
from api.reply import ok, reply
from runtally import __version__
from runtally.db.migrate import is_current
from runtally.errors import StoreUnavailable

blueprint = Blueprint("health", __name__, url_prefix="/api/health")


@blueprint.get("")
@public
async def get_health() -> ResponseReturnValue:
    """Whether the service can do its work: 200 when it can, 503 with what is wrong when it can't."""
    database, migrations = "ok", "unknown"
    try:
        async with services().database.connection() as connection:
            migrations = "current" if await is_current(connection) else "pending"
    except StoreUnavailable:
        database = "unavailable"
    healthy = database == "ok" and migrations == "current"
    body = {
        "ok": healthy,
        "status": "ok" if healthy else "degraded",
        "version": __version__,
        "database": database,
        "migrations": migrations,
        "uptimeSeconds": int((services().clock() - services().opened_at).total_seconds()),
    }
    return reply(body, 200 if healthy else 503)


@blueprint.get("/live")
@public
async def get_live() -> ResponseReturnValue:
    """Whether the process serves at all; says nothing about the database."""
    return ok({"status": "live"})
