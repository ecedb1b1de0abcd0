"""GET /api/health and /api/health/live."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.access import public
from api.current import services
from api.operation import Answer, Content, Operation, documents
from api.reply import reply
from runtally import __version__
from runtally.db.schema import is_current
from runtally.errors import StoreUnavailable
from runtally.fields import camel

blueprint = Blueprint("health", __name__, url_prefix="/api/health")


class Health(msgspec.Struct, frozen=True, rename=camel):
    """The parts that the service needs, and the state of each."""

    ok: bool
    status: Literal["ok", "degraded"]
    version: str
    database: Literal["ok", "unavailable"]
    migrations: Annotated[
        Literal["current", "pending", "unknown"], Meta(description="unknown while the database is out of reach.")
    ]
    uptime_seconds: Annotated[int, Meta(ge=0)]


class Live(msgspec.Struct, frozen=True):
    """The process is serving."""

    ok: Literal[True] = True
    status: Literal["live"] = "live"


_WELL = {"ok": True, "status": "ok", "version": __version__, "database": "ok", "migrations": "current"}
_ILL = {"ok": False, "status": "degraded", "version": __version__, "database": "unavailable", "migrations": "unknown"}
HEALTH = Operation(
    tag="Health",
    answers={
        200: Answer("The service can do its work.", (Content((Health,), {"Well": {**_WELL, "uptimeSeconds": 86400}}),)),
        503: Answer(
            "It can't, and this is what is wrong.", (Content((Health,), {"Ill": {**_ILL, "uptimeSeconds": 12}}),)
        ),
    },
)
LIVE = Operation(
    tag="Health", answers={200: Answer("It does.", (Content((Live,), {"Live": {"ok": True, "status": "live"}}),))}
)


@blueprint.get("")
@public
@documents(HEALTH)
async def get_health() -> ResponseReturnValue:
    """Check whether the service can do its work: 200 if it can, 503 with the reason if it cannot."""
    database: Literal["ok", "unavailable"] = "ok"
    migrations: Literal["current", "pending", "unknown"] = "unknown"
    try:
        async with services().cells.of(None).intake.connection() as connection:
            migrations = "current" if await is_current(connection) else "pending"
    except StoreUnavailable:
        database = "unavailable"
    healthy = database == "ok" and migrations == "current"
    health = Health(
        ok=healthy,
        status="ok" if healthy else "degraded",
        version=__version__,
        database=database,
        migrations=migrations,
        uptime_seconds=int((services().clock() - services().opened_at).total_seconds()),
    )
    return reply(health, 200 if healthy else 503)


@blueprint.get("/live")
@public
@documents(LIVE)
async def get_live() -> ResponseReturnValue:
    """Check whether the process is serving at all; this says nothing about the database."""
    return reply(Live())
