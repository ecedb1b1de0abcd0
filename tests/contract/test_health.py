"""GET /api/health."""

import httpx
import pytest

from runtally import COMMIT, __version__
from runtally.db.database import Database
from runtally.db.schema import CELL
from tests.serving import settings_for
from webapp.app import create_app


async def test_health_is_ok_when_everything_works(stranger: httpx.AsyncClient) -> None:
    response = await stranger.get("/api/health")

    body = response.json()
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert isinstance(body.pop("uptimeSeconds"), int)
    assert body.pop("commit", "") == COMMIT
    assert body == {"ok": True, "status": "ok", "version": __version__, "database": "ok", "migrations": "current"}


@pytest.mark.parametrize(("version", "migrations", "status"), [("0000", "pending", 503), ("9999", "current", 200)])
async def test_a_server_is_well_with_newer_tables_and_not_with_older_ones(
    empty_database_url: str, own: Database, version: str, migrations: str, status: int
) -> None:
    async with own.connection() as connection:
        await connection.execute(f"UPDATE {CELL.version_table} SET version_num = $1", version)  # Ours.

    async with create_app(settings_for(empty_database_url)).test_app() as running:
        response = await running.app.test_client().get("/api/health")  # type: ignore[attr-defined]  # Quart's TestApp holds it.

    assert (response.status_code, (await response.get_json())["migrations"]) == (status, migrations)


async def test_live_reports_only_that_the_process_serves(stranger: httpx.AsyncClient) -> None:
    response = await stranger.get("/api/health/live")

    assert response.json() == {"ok": True, "status": "live"}
