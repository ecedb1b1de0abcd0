"""POST /api/ingest: what a body must be before there is a run in it."""

import gzip
import json

import httpx
import pytest

from tests.assertions import assert_error
from tests.factories import make_run


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[1, 2]", b'"text"', b'{"projectId": "p", ', b"null", b"\xff\xfe"])
async def test_a_body_that_is_no_json_object_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    response = await client.post("/api/ingest", content=body, headers={"Content-Type": "application/json"})

    assert_error(response, 400, "invalid_json")


async def test_json_nested_without_end_is_refused(client: httpx.AsyncClient, project_id: str) -> None:
    body = b'{"projectId": "%s", "metadata": %s1%s}' % (project_id.encode(), b"[" * 100_000, b"]" * 100_000)

    response = await client.post("/api/ingest", content=body, headers={"Content-Type": "application/json"})

    assert_error(response, 400, "invalid_json")


@pytest.mark.parametrize("is_nested", [False, True])
async def test_metadata_with_too_many_keys_is_refused(
    client: httpx.AsyncClient, project_id: str, *, is_nested: bool
) -> None:
    # Content, of which the size alone would not tell: it is dropped before that is looked at.
    many = {f"prompt_{number}": "" for number in range(10_001)}

    response = await client.post(
        "/api/ingest", json=make_run(projectId=project_id, metadata={"spans": [many]} if is_nested else many)
    )

    assert_error(response, 422, "invalid_payload", paths=["metadata"])
    assert "must have at most 10,000 keys" in response.text


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_another_content_type_is_refused(client: httpx.AsyncClient, content_type: str) -> None:
    response = await client.post("/api/ingest", content=b"{}", headers={"Content-Type": content_type})

    assert_error(response, 415, "unsupported_media_type")


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "application/vnd.acme+json"])
async def test_any_json_content_type_is_accepted(client: httpx.AsyncClient, project_id: str, content_type: str) -> None:
    body = json.dumps(make_run(projectId=project_id))

    response = await client.post("/api/ingest", content=body, headers={"Content-Type": content_type})

    assert response.status_code == 200


async def test_a_gzip_body_is_accepted(client: httpx.AsyncClient, project_id: str) -> None:
    body = gzip.compress(json.dumps(make_run(projectId=project_id, runId="packed")).encode())

    response = await client.post(
        "/api/ingest", content=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}
    )

    assert response.json() == {"ok": True, "id": "packed"}


async def test_a_gzip_body_of_several_members_is_read_whole(client: httpx.AsyncClient, project_id: str) -> None:
    plain = json.dumps(make_run(projectId=project_id, runId="in-parts")).encode()
    body = b"".join(gzip.compress(part) for part in (plain[:9], plain[9:], b"", b"\n"))

    response = await client.post(
        "/api/ingest", content=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}
    )

    assert response.json() == {"ok": True, "id": "in-parts"}


async def test_several_gzip_members_share_the_size_limit(client: httpx.AsyncClient) -> None:
    body = gzip.compress(b" " * (3 * 1024 * 1024)) * 2

    response = await client.post(
        "/api/ingest", content=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}
    )

    assert_error(response, 413, "body_too_large")


_PACKED = gzip.compress(b'{"projectId": "p", "provider": "acme", "model": "m"}', mtime=0)


@pytest.mark.parametrize(
    "body",
    [b"not gzip", _PACKED[:-6], b"", _PACKED * 2, _PACKED + b"more", _PACKED + gzip.compress(b"", mtime=0) * 200],
    ids=["other bytes", "cut off", "nothing", "two documents", "more after the end", "hundreds of members"],
)
async def test_a_broken_gzip_body_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    response = await client.post(
        "/api/ingest", content=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}
    )

    assert_error(response, 400, "invalid_json")


@pytest.mark.parametrize("field", ["errorCode", "prompt", "unheardOf", "metadata", "projectId"])
async def test_bytes_that_are_not_utf_8_are_no_json_in_whatever_field(client: httpx.AsyncClient, field: str) -> None:
    body = json.dumps(make_run(projectId="p")).encode()[:-1] + f', "{field}": "'.encode() + b'\xff"}'

    response = await client.post("/api/ingest", content=body, headers={"Content-Type": "application/json"})

    assert_error(response, 400, "invalid_json")


async def test_an_unknown_content_encoding_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.post(
        "/api/ingest", content=b"{}", headers={"Content-Type": "application/json", "Content-Encoding": "br"}
    )

    assert_error(response, 415, "unsupported_media_type")
