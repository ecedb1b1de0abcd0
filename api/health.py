"""GET /api/health and /api/health/live."""

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.access import public
from api.current import services
from api.operation import Answer, Content, Operation, documents
from api.reply import reply
from runtally import COMMIT, __version__
from runtally.db.schema import CELL, is_behind, is_pending
from runtally.errors import PendingCell, StoreUnavailable
from runtally.fields import camel
from runtally.settings import MAIN

blueprint = Blueprint("health", __name__, url_prefix="/api/health")


class Health(msgspec.Struct, frozen=True, rename=camel):
    """The state of each part that the service needs."""

    ok: bool
    status: Literal["ok", "degraded"]
    version: str
    database: Literal["ok", "unavailable"]
    migrations: Annotated[
        Literal["current", "pending", "unknown"], Meta(description="unknown while the database is out of reach.")
    ]
    uptime_seconds: Annotated[int, Meta(ge=0)]
    cells: (
        Annotated[
            dict[str, Literal["ok", "unavailable", "pending"]],
            Meta(
                description="Where there are several cells: the database of each further one, or that it is not migrated."
            ),
        ]
        | UnsetType
    ) = UNSET
    commit: Annotated[str, Meta(description="What it was built from, where that is known.")] | UnsetType = UNSET


class Live(msgspec.Struct, frozen=True):
    """The process is serving."""

    ok: Literal[True] = True
    status: Literal["live"] = "live"


_HEALTHY = {"ok": True, "status": "ok", "version": __version__, "database": "ok", "migrations": "current"}
_DEGRADED = {
    "ok": False,
    "status": "degraded",
    "version": __version__,
    "database": "unavailable",
    "migrations": "unknown",
}
HEALTH = Operation(
    tag="Health",
    answers={
        200: Answer(
            "The service can do its work.", (Content((Health,), {"Healthy": {**_HEALTHY, "uptimeSeconds": 86400}}),)
        ),
        503: Answer(
            "It cannot, and this is what is wrong.",
            (Content((Health,), {"Degraded": {**_DEGRADED, "uptimeSeconds": 12}}),),
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
    """Check whether the service can do its work: 200 if it can, 503 with the reason if it cannot.

    With several cells, one that is away affects only its own projects: the status is degraded, with 200.
    """
    database: Literal["ok", "unavailable"] = "ok"
    migrations: Literal["current", "pending", "unknown"] = "unknown"
    try:
        async with services().cells.main.intake.connection() as connection:
            migrations = "pending" if await is_pending(connection) else "current"
    except StoreUnavailable:
        database = "unavailable"
    healthy = database == "ok" and migrations == "current"
    further = [name for name in services().cells.names if name != MAIN]
    cells = dict(zip(further, await asyncio.gather(*map(_state_of, further)), strict=True))
    health = Health(
        ok=healthy,
        status="ok" if healthy and set(cells.values()) <= {"ok"} else "degraded",
        cells=cells or UNSET,
        version=__version__,
        commit=COMMIT or UNSET,
        database=database,
        migrations=migrations,
        uptime_seconds=int(services().uptime.total_seconds()),
    )
    return reply(health, 200 if healthy else 503)


async def _state_of(name: str) -> Literal["ok", "unavailable", "pending"]:
    try:
        async with services().cells.intake_of(name) as connection:
            return "pending" if await is_behind(connection, CELL) else "ok"
    except PendingCell:
        return "pending"
    except StoreUnavailable:
        return "unavailable"


@blueprint.get("/live")
@public
@documents(LIVE)
async def get_live() -> ResponseReturnValue:
    """Check whether the process is serving at all; this says nothing about the database."""
    return reply(Live())
