"""What many tests look at in the same way."""

import json
from collections.abc import Iterable

import httpx


def assert_error(
    response: httpx.Response, status: int, code: str, *, paths: Iterable[str] = (), never: Iterable[str] = ()
) -> None:
    """The contract's error shape: the code, exactly these paths in the details, and none of the values that were sent."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("application/json")
    assert response.headers["x-request-id"]
    # Caches may else keep a 404 for minutes, and give it to who asks for a picture.
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert body["ok"] is False
    assert set(body) == {"ok", "error"}
    error = body["error"]
    assert error["code"] == code
    assert error["message"].strip().endswith(".")
    assert {detail["path"] for detail in error.get("details", [])} == set(paths), json.dumps(error)
    for value in never:
        assert value not in response.text
