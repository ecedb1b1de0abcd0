"""How batches are posted, tried again and given up, against a made-up server."""

import gzip
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from runtally.client.post import MAX_DELAY_S, MAX_TRIES, Poster, Target
from runtally.client.run import GaveUp, OutgoingRun, RequestRefused, ServerUnreachable

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
KEY = "key-of-the-test"
STORED = httpx.Response(200, json={"ok": True, "processed": 1, "ids": ["a"]})

Answer = httpx.Response | Exception


class FakeServer:
    """Gives the answers in turn, the last one for ever, and keeps what it was asked and how long it was waited for."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []

    def poster(self) -> Poster:
        target = Target("http://127.0.0.1:8000", KEY)
        return Poster(target, sleep=self._wait, clock=lambda: NOW, transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _wait(self, seconds: float) -> None:
        self.waits.append(seconds)


def some_runs(count: int = 1) -> list[OutgoingRun]:
    return [OutgoingRun(run_id=f"run-{number}", provider="openai", model="gpt-4o-mini") for number in range(count)]


def failure(status: int, code: str, details: list[dict[str, str]] | None = None, **headers: str) -> httpx.Response:
    error: dict[str, Any] = {"code": code, "message": "Do it otherwise."} | ({"details": details} if details else {})
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, json={"ok": False, "error": error}, headers=names)


async def test_a_batch_goes_gzipped_with_the_key_and_asks_to_skip_bad_runs() -> None:
    server = FakeServer([STORED])

    async with server.poster() as poster:
        receipt = await poster.post("shop", some_runs())

    (request,) = server.requests
    assert receipt.processed == 1
    assert request.url.path == "/api/ingest"
    assert request.url.params["onError"] == "skip"
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(request.content)) == {
        "projectId": "shop",
        "runs": [{"runId": "run-0", "provider": "openai", "model": "gpt-4o-mini"}],
    }


async def test_a_rate_limit_is_waited_out_for_as_long_as_it_says() -> None:
    server = FakeServer([failure(429, "rate_limited", Retry_After="7"), STORED])

    async with server.poster() as poster:
        receipt = await poster.post("shop", some_runs())

    (wait,) = server.waits
    assert receipt.processed == 1
    assert 7 <= wait <= 8


async def test_a_retry_after_may_be_a_date() -> None:
    server = FakeServer([failure(503, "store_unavailable", Retry_After="Sat, 21 Nov 2026 12:00:20 GMT"), STORED])

    async with server.poster() as poster:
        await poster.post("shop", some_runs())

    assert 20 <= server.waits[0] <= 21


async def test_a_retry_after_is_never_followed_for_more_than_a_minute() -> None:
    server = FakeServer([failure(429, "rate_limited", Retry_After="86400"), STORED])

    async with server.poster() as poster:
        await poster.post("shop", some_runs())

    assert server.waits == [MAX_DELAY_S]


async def test_failing_connections_are_tried_again_with_growing_waits_and_then_given_up() -> None:
    server = FakeServer([httpx.ConnectError("refused")])

    async with server.poster() as poster:
        with pytest.raises(GaveUp) as raised:
            await poster.post("shop", some_runs())

    assert len(server.requests) == MAX_TRIES
    assert len(server.waits) == MAX_TRIES - 1
    assert server.waits[0] <= 1
    # Jitter halves a wait at most, and each next one is twice as long until the limit.
    assert all(later >= sooner for sooner, later in zip(server.waits[:-1:2], server.waits[2::2], strict=False))
    assert max(server.waits) <= MAX_DELAY_S
    assert "ConnectError" in raised.value.message
    assert "run the same command again" in raised.value.message.casefold()
    assert KEY not in raised.value.message


@pytest.mark.parametrize(
    "answer",
    [
        failure(401, "invalid_key"),
        failure(413, "body_too_large"),
        failure(422, "invalid_payload"),
        failure(503, "not_configured", Retry_After="1"),
        httpx.Response(404, text="<html>"),
    ],
    ids=lambda answer: str(answer.status_code),
)
async def test_a_permanent_error_is_not_tried_again(answer: httpx.Response) -> None:
    server = FakeServer([answer])

    async with server.poster() as poster:
        with pytest.raises(RequestRefused):
            await poster.post("shop", some_runs())

    assert len(server.requests) == 1
    assert server.waits == []


async def test_a_refusal_says_what_the_server_said() -> None:
    details = [{"path": "projectId", "message": "must be a string"}]
    server = FakeServer([failure(422, "invalid_payload", details)])

    async with server.poster() as poster:
        with pytest.raises(RequestRefused) as raised:
            await poster.post("shop", some_runs())

    assert "Do it otherwise." in raised.value.message
    assert "projectId must be a string" in raised.value.message


async def test_an_error_page_of_a_proxy_is_not_repeated() -> None:
    server = FakeServer([httpx.Response(403, text="<html>" + "x" * 10_000)])

    async with server.poster() as poster:
        with pytest.raises(RequestRefused, match="HTTP 403") as raised:
            await poster.post("shop", some_runs())

    assert len(raised.value.message) < 200


async def test_a_success_that_is_not_of_this_service_is_refused() -> None:
    server = FakeServer([httpx.Response(200, text="<html>hello</html>")])

    async with server.poster() as poster:
        with pytest.raises(RequestRefused, match="--url"):
            await poster.post("shop", some_runs())


async def test_a_batch_that_is_too_large_goes_in_halves_and_keeps_its_indexes() -> None:
    async def answer(request: httpx.Request) -> httpx.Response:
        runs = json.loads(gzip.decompress(request.content))["runs"]
        if len(runs) > 3:
            return failure(413, "body_too_large")
        bad = [index for index, run in enumerate(runs) if run["runId"] in {"run-1", "run-8"}]
        rejected = [{"index": index, "details": [{"path": "model", "message": "is required"}]} for index in bad]
        return httpx.Response(200, json={"ok": True, "processed": len(runs) - len(bad), "rejected": rejected})

    async with Poster(Target("http://127.0.0.1:8000", KEY), transport=httpx.MockTransport(answer)) as poster:
        receipt = await poster.post("shop", some_runs(10))

    assert receipt.processed == 8
    assert [run.index for run in receipt.rejected] == [1, 8]
    assert receipt.rejected[0].reason == "model is required"


def _refused(_request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


@pytest.mark.parametrize(
    ("answer", "said"),
    [(_refused, "make run"), (lambda _request: httpx.Response(404), "is not Runtally")],
    ids=["nobody there", "somebody else"],
)
async def test_a_missing_server_is_reported_at_once(
    answer: Callable[[httpx.Request], httpx.Response], said: str
) -> None:
    async with Poster(Target("http://127.0.0.1:8000", KEY), transport=httpx.MockTransport(answer)) as poster:
        with pytest.raises(ServerUnreachable, match=said):
            await poster.check()


def test_a_target_does_not_show_its_key() -> None:
    assert KEY not in repr(Target("http://127.0.0.1:8000", KEY))
