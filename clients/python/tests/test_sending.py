"""Recorded runs reach the service once, whatever happens on the way, and the program that records notices nothing."""

import gzip
import json
import logging
import time
import uuid
from collections.abc import Callable
from decimal import Decimal
from http.client import HTTPConnection

import pytest

import runtally_client as runtally
from runtally.db.database import Database
from runtally_client import _sender, _target
from tests.receiver import Receiver, ok, refuse, running_receiver
from tests.serving import Server

RUN = {"provider": "acme", "model": "acme-large"}


@pytest.fixture
def init(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A client of the receiver that hardly waits between tries."""
    monkeypatch.setattr(_sender, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(_sender, "EXIT_WITHOUT_PROGRESS_SECONDS", 0.01)
    return lambda **options: runtally.init(receiver.url, "key", "p", **options)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "runtally"]


def runs_of(receiver: Receiver) -> list[dict[str, object]]:
    return [run for body in receiver.bodies for run in json.loads(body)["runs"]]


async def test_what_is_recorded_is_stored_once_and_a_bad_run_costs_no_other(
    server: Server, database: Database, project_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    runtally.init(server.url, server.ingest_key, project_id, metadata={"service": "tests"})

    for number in range(3):
        runtally.record(**RUN, runId="again" if number else "once", inputTokens=number, metadata={"n": number})
    runtally.record(**RUN, inputTokens=-1)
    runtally.record(**RUN, metadata={"nan": float("nan")})
    runtally.record(**RUN, metadata={"object": object()})
    runtally.record(**RUN, metadata={"half a character": "\ud83d"})
    assert not runtally.flush(30), "some were refused"
    runtally.record(**RUN, runId="plain", metadata={"id": uuid.UUID(int=1), "amount": Decimal("0.1")})
    assert runtally.flush(30)

    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT id, input_tokens, metadata FROM runs WHERE project_id = $1 ORDER BY id", project_id
        )
    stored = [(row["id"], row["input_tokens"], row["metadata"]) for row in rows]
    assert stored == [
        ("again", 1, {"service": "tests", "n": 1}),
        ("once", 0, {"service": "tests", "n": 0}),
        ("plain", None, {"service": "tests", "id": str(uuid.UUID(int=1)), "amount": "0.1"}),
    ]
    assert [message.split(", ")[1] for message in messages(caplog)] == ["a value is no JSON (ValueError)"]


def test_the_same_is_sent_again_until_it_is_taken(init: Callable[..., None], receiver: Receiver) -> None:
    replies = iter((503, 429, 408, b"<p>Sign in to the wireless network", b"[]", 200))
    receiver.reply = lambda _document: next(replies)
    init()

    runtally.record(**RUN)

    assert runtally.flush(10)
    assert len(set(receiver.bodies)) == 1
    assert len(receiver.bodies) == 6
    assert {headers["content-encoding"] for headers in receiver.headers} == {"gzip"}


@pytest.mark.parametrize(
    ("asked", "waited"), [("7", 7), ("1e12", 300), ("nan", 0), ("Sun, 22 Nov 2026 17:00:00 GMT", 0), (None, 0)]
)
def test_the_client_waits_as_long_as_it_is_asked_to(
    init: Callable[..., None], receiver: Receiver, monkeypatch: pytest.MonkeyPatch, asked: str | None, waited: float
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(_sender.Sender, "_pause", lambda _self, seconds, _nudges: waits.append(seconds))
    replies = iter((429, 200))
    receiver.reply = lambda _document: next(replies)
    receiver.retry_after = asked
    init()

    runtally.record(**RUN)

    assert runtally.flush(10)
    assert [round(wait) for wait in waits] == [waited]


def test_a_refused_key_is_told_once_and_stops_sending(
    init: Callable[..., None], receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.reply = refuse(401)
    init()

    for _ in range(3):
        runtally.record(**RUN)
        assert not runtally.flush(10)

    assert len(receiver.bodies) == 1
    assert [message.split(";")[0] for message in messages(caplog)] == ["Runtally refused the key (401)"]


def test_what_is_refused_for_good_is_not_sent_again(
    init: Callable[..., None], receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.reply = refuse(404)
    init()

    runtally.record(**RUN)

    assert not runtally.flush(10)
    assert len(receiver.bodies) == 1
    assert messages(caplog) == ["Runtally: 1 run is lost, the server refused them with 404: no reason given"]


def test_who_records_never_waits_and_losses_are_told_together(
    init: Callable[..., None], receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_sender, "MAX_WAITING", 2)
    receiver.reply = lambda _document: None
    init()

    for _ in range(9):
        runtally.record(**RUN)
    assert not runtally.flush(0.01)
    assert len(messages(caplog)) == 1
    assert "2 are waiting already" in caplog.text

    receiver.reply = ok
    receiver.ended.set()
    assert runtally.flush(10)
    assert len({str(run["runId"]) for run in runs_of(receiver)}) in (2, 4)


def test_runs_go_together_over_one_connection(
    init: Callable[..., None], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sender, "MAX_RUNS", 3)
    connections: list[HTTPConnection] = []
    connect = _target.Target._connect  # noqa: SLF001

    def counting(target: _target.Target) -> HTTPConnection:
        connections.append(connect(target))
        return connections[-1]

    monkeypatch.setattr(_target.Target, "_connect", counting)
    init()

    for _ in range(10):
        runtally.record(**RUN)

    assert runtally.flush(10)
    sizes = [len(json.loads(body)["runs"]) for body in receiver.bodies]
    assert sum(sizes) == 10
    assert max(sizes) == 3
    assert len(connections) == 1


def test_a_connection_that_was_closed_while_idle_costs_nothing(init: Callable[..., None], receiver: Receiver) -> None:
    init()
    runtally.record(**RUN)
    assert runtally.flush(10)
    sender = runtally._active  # noqa: SLF001
    assert sender
    assert sender.target.connection
    sender.target.connection.sock.close()

    runtally.record(**RUN)

    assert runtally.flush(10)
    assert len(runs_of(receiver)) == 2


def test_another_server_is_another_connection(init: Callable[..., None], receiver: Receiver) -> None:
    init()
    runtally.record(**RUN)
    assert runtally.flush(10)

    with running_receiver() as other:
        runtally.init(other.url)
        runtally.record(**RUN)
        assert runtally.flush(10)
        assert len(runs_of(other)) == len(runs_of(receiver)) == 1


def test_a_run_that_is_too_large_is_dropped_alone(
    init: Callable[..., None], receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    init()

    runtally.record(**RUN, metadata={"long": "x" * _sender.MAX_BYTES})
    runtally.record(**RUN)

    assert runtally.flush(10)
    assert len(runs_of(receiver)) == 1
    assert messages(caplog) == ["Runtally: 1 run is lost, too large"]


def test_nothing_is_recorded_where_it_is_turned_off(
    init: Callable[..., None], receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("RUNTALLY_DISABLED", "1")
    init()
    runtally.instrument()

    runtally.record(**RUN)

    assert runtally.flush()
    assert not receiver.bodies
    assert not messages(caplog)


def test_runs_before_init_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    runtally.record(**RUN)
    runtally.record(**RUN)

    assert messages(caplog) == ["Runs are recorded and not sent: call runtally_client.init() first"]


def test_the_environment_says_where_runs_go(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("URL", f"{receiver.url}/below/"), ("API_KEY", "the-key"), ("PROJECT", "from-environment")):
        monkeypatch.setenv(f"RUNTALLY_{name}", value)
    runtally.init()
    runtally.init(metadata={"twice": "is once"})

    runtally.record(**RUN)

    assert runtally.flush(10)
    assert receiver.headers[0]["authorization"] == "Bearer the-key"
    assert receiver.documents[0]["projectId"] == "from-environment"
    assert receiver.documents[0]["runs"][0]["metadata"] == {"twice": "is once"}


@pytest.mark.parametrize("url", ["runtally.example.com", "ftp://there", "http://", "http://there:port"])
def test_a_url_that_is_none_is_told_and_raises_nothing(url: str, caplog: pytest.LogCaptureFixture) -> None:
    runtally.init(url, "key", "p")

    assert messages(caplog) == ["RUNTALLY_URL must be like https://runtally.example.com; nothing will be sent"]


def test_the_key_is_in_no_message(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(_sender, "FIRST_PAUSE_SECONDS", 0.001)
    replies = iter((500, 403))
    receiver.reply = lambda _document: next(replies)
    runtally.init(receiver.url, "secret-of-the-test", "p")

    runtally.record(**RUN)

    assert not runtally.flush(10)
    assert messages(caplog)
    assert "secret-of-the-test" not in caplog.text


def test_a_batch_is_compressed_and_at_most_a_megabyte(init: Callable[..., None], receiver: Receiver) -> None:
    init()

    for _ in range(5):
        runtally.record(**RUN, metadata={"long": "x" * 300_000})

    assert runtally.flush(10)
    assert [len(json.loads(body)["runs"]) for body in receiver.bodies] == [3, 2]
    assert len(gzip.compress(receiver.bodies[0])) < 10_000


def test_recording_takes_microseconds(init: Callable[..., None]) -> None:
    """Beside encoding the same run, which any client has to do: not in seconds, which are the machine's."""
    init()

    def seconds(work: Callable[[], object]) -> float:
        def once() -> float:
            began = time.thread_time()
            for _ in range(200):
                work()
            return time.thread_time() - began

        return min(once() for _ in range(10))

    encoding = seconds(lambda: json.dumps(RUN | {"runId": str(uuid.uuid4()), "metadata": {"feature": "search"}}))
    assert seconds(lambda: runtally.record(**RUN, metadata={"feature": "search"})) < 6 * encoding
