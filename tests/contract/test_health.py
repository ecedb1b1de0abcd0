"""GET /api/health."""

import httpx

from runtally import __version__


async def test_health_is_ok_when_everything_works(stranger: httpx.AsyncClient) -> None:
    response = await stranger.get("/api/health")

    body = response.json()
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert isinstance(body.pop("uptimeSeconds"), int)
    assert body == {"ok": True, "status": "ok", "version": __version__, "database": "ok", "migrations": "current"}


async def test_live_reports_only_that_the_process_serves(stranger: httpx.AsyncClient) -> None:
    response = await stranger.get("/api/health/live")

    assert response.json() == {"ok": True, "status": "live"}
