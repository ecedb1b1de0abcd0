"""The relay: every stored and every changed run is pushed, at least once, whatever happens in between."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from runtally.db.database import Database
from runtally.errors import ReceiverUnavailable
from runtally.pricing.book import PriceBook
from runtally.pricing.repricing.recost import price_unpriced
from runtally.reporting import remote
from runtally.reporting import remote as pushing
from runtally.reporting.document import SIGNATURE_HEADER, sign
from runtally.reporting.outbox_queries import RelayStatus, retry_parked, select_parked
from runtally.reporting.relay import MAX_ATTEMPTS, MAX_PAUSE, Relay
from tests.documents import SYNC_SECRET
from tests.receiver import Receiver, Reply, refuse
from tests.relays import BATCH, CONCURRENCY, SECONDS, SteppedClock, drain, park, relay_to, status, store
from tests.serving import free_port
from tests.unit.pricing.candidates import make_candidate

BOOK = PriceBook([make_candidate("acme", "acme-large", number=5)])


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def relay(own: Database, receiver: Receiver, clock: SteppedClock) -> AsyncIterator[Relay]:
    async with relay_to(receiver.url, own, clock) as relay:
        yield relay


async def test_every_run_is_pushed_once_and_leaves_the_queue(own: Database, relay: Relay, receiver: Receiver) -> None:
    ids = await store(own, 2 * BATCH + 50)

    await drain(relay)

    assert receiver.runs == dict.fromkeys(ids, 1)
    assert await status(own) == RelayStatus(0, 0, None)


async def test_a_push_is_one_signed_document(own: Database, relay: Relay, receiver: Receiver) -> None:
    await store(own)

    await drain(relay)

    [document], [headers], [body] = receiver.documents, receiver.headers, receiver.bodies
    assert (document["projectId"], document["id"], document["version"]) == ("p", "run-0000", 1)
    assert headers["content-type"] == "application/json"
    assert headers[SIGNATURE_HEADER] == sign(body, SYNC_SECRET)


async def test_a_receiver_that_takes_batches_gets_them_whole_and_signed(
    own: Database, relay: Relay, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "DOCUMENTS", 40)
    receiver.takes_batches = True
    ids = await store(own, 90)

    await drain(relay)

    assert receiver.runs == dict.fromkeys(ids, 1)
    assert sorted(receiver.batches) == [10, 40, 40]
    for headers, body in zip(receiver.headers, receiver.bodies, strict=True):
        assert headers[SIGNATURE_HEADER] == sign(body, SYNC_SECRET)
    assert await status(own) == RelayStatus(0, 0, None)


async def test_a_batch_has_no_more_bytes_than_a_server_takes(
    own: Database, relay: Relay, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "BATCH_BYTES", 3_000)
    receiver.takes_batches = True
    ids = await store(own, 20)

    await drain(relay)

    assert receiver.runs == dict.fromkeys(ids, 1)
    assert len(receiver.batches) > 1
    assert all(len(body) < 3_100 for body in receiver.bodies)


async def test_a_document_that_is_refused_in_a_batch_fails_alone(
    own: Database, relay: Relay, receiver: Receiver
) -> None:
    receiver.takes_batches = True
    receiver.reply = lambda document: 422 if document["id"] == "run-0003" else 200
    await store(own, 10)

    done = await relay.run_pass()

    assert (done.delivered, [failure.claim.run_id for failure in done.failed]) == (9, ["run-0003"])
    assert done.failed[0].error == "refused as a document of a batch"
    assert not done.receiver_down


async def test_of_a_batch_that_breaks_the_receiver_each_document_is_tried_alone(
    own: Database, relay: Relay, receiver: Receiver
) -> None:
    receiver.takes_batches = True
    receiver.reply = lambda document: 500 if document["id"] == "run-0003" else 200
    await store(own, 10)

    done = await relay.run_pass()

    assert (done.delivered, [failure.claim.run_id for failure in done.failed]) == (9, ["run-0003"])


@pytest.mark.parametrize("answer", [422, b'{"ok": true}', b'{"ok": true, "results": []}', b"<html>Welcome</html>"])
async def test_a_receiver_that_knows_no_batches_gets_documents_one_by_one(
    own: Database, relay: Relay, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, answer: Reply
) -> None:
    monkeypatch.setattr(receiver, "_reply_to_batch", lambda _documents: answer)
    ids = await store(own, BATCH + 20)

    await drain(relay)

    assert receiver.runs == dict.fromkeys(ids, 1)
    # Those that were under way when the first was refused; then none.
    assert len(receiver.batches) <= CONCURRENCY
    assert await status(own) == RelayStatus(0, 0, None)


async def test_the_first_of_several_secrets_signs(own: Database, receiver: Receiver, clock: SteppedClock) -> None:
    await store(own)

    async with relay_to(receiver.url, own, clock, secrets="new, old") as relay:
        await drain(relay)

    assert receiver.headers[0][SIGNATURE_HEADER] == sign(receiver.bodies[0], "new")


async def test_pushes_are_concurrent(own: Database, relay: Relay, receiver: Receiver) -> None:
    together = threading.Barrier(CONCURRENCY, timeout=SECONDS)

    def wait_for_each_other(_document: dict[str, Any]) -> Reply:
        together.wait()
        return 200

    receiver.reply = wait_for_each_other
    await store(own, 3 * CONCURRENCY)

    await drain(relay)

    assert receiver.most_at_once == CONCURRENCY
    assert len(receiver.runs) == 3 * CONCURRENCY


async def test_a_failed_push_is_tried_again_later_and_later(
    own: Database, relay: Relay, receiver: Receiver, clock: SteppedClock
) -> None:
    receiver.reply = refuse(500)
    await store(own)

    pauses = []
    for _ in range(MAX_ATTEMPTS - 1):
        [failure] = (await relay.run_pass()).failed
        pauses.append((failure.due_at - clock.now).total_seconds())
        assert (await relay.run_pass()).taken == 0
        clock.now = failure.due_at

    for number, pause in enumerate(pauses):
        longest = min(5 * 2**number, MAX_PAUSE.total_seconds())
        assert longest / 2 <= pause <= longest


async def test_runs_that_failed_together_are_not_tried_together_again(
    own: Database, relay: Relay, receiver: Receiver
) -> None:
    receiver.reply = refuse(503)
    await store(own, 2 * CONCURRENCY)

    failed = (await relay.run_pass()).failed

    assert len({failure.due_at for failure in failed}) == len(failed) >= CONCURRENCY


async def test_a_run_is_parked_after_ten_failures_with_its_last_error(
    own: Database, relay: Relay, receiver: Receiver, clock: SteppedClock
) -> None:
    receiver.reply = refuse(422)
    await store(own)

    await park(relay, clock)
    await drain(relay)

    assert receiver.runs == {"run-0000": MAX_ATTEMPTS}
    assert (await status(own)).parked == 1
    async with own.connection() as connection:
        [parked] = await select_parked(connection, 10)
    assert (parked.project_id, parked.run_id, parked.last_error) == ("p", "run-0000", "HTTP 422")


async def test_a_parked_run_is_pushed_when_it_is_retried(
    own: Database, relay: Relay, receiver: Receiver, clock: SteppedClock
) -> None:
    receiver.reply = refuse(500)
    await store(own)
    await park(relay, clock)
    receiver.reply = refuse(200)

    async with own.connection() as connection:
        await retry_parked(connection, clock.now)
    await drain(relay)

    assert await status(own) == RelayStatus(0, 0, None)


async def test_one_bad_run_does_not_hold_up_the_others(own: Database, relay: Relay, receiver: Receiver) -> None:
    receiver.reply = lambda document: 422 if document["id"] == "run-0000" else 200
    await store(own, BATCH)

    done = await relay.run_pass()

    assert (done.delivered, len(done.failed)) == (BATCH - 1, 1)
    assert (await status(own)).waiting == 1


async def test_many_bad_runs_do_not_hold_up_the_others(own: Database, relay: Relay, receiver: Receiver) -> None:
    receiver.reply = lambda document: 200 if document["id"] == f"run-{BATCH - 1:04}" else 422
    await store(own, BATCH)

    await relay.work(asyncio.Event())

    assert len(receiver.documents) == BATCH
    assert (await status(own)).waiting == BATCH - 1


@pytest.mark.parametrize("answer", [b"<html>Welcome</html>", b'{"ok": false}', b"[]", b"\xff"])
async def test_a_200_of_something_else_is_a_failure(
    own: Database, relay: Relay, receiver: Receiver, answer: bytes
) -> None:
    receiver.reply = lambda _document: answer
    await store(own)

    [failure] = (await relay.run_pass()).failed

    assert failure.error == "HTTP 200 from something that is no receiver"


async def test_a_receiver_that_never_answers_is_given_up_on(
    own: Database, receiver: Receiver, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "ANSWER_SECONDS", 0.2)
    receiver.reply = lambda _document: None
    await store(own, 2)

    async with relay_to(receiver.url, own, clock) as relay:
        failed = (await relay.run_pass()).failed

    assert [failure.error for failure in failed] == ["no answer within 0.2 s"] * 2


async def test_a_receiver_that_is_not_there_costs_few_runs_an_attempt(own: Database, clock: SteppedClock) -> None:
    await store(own, 2 * BATCH)

    async with relay_to(f"http://127.0.0.1:{free_port()}", own, clock) as relay:
        with pytest.raises(ReceiverUnavailable, match="cannot connect"):
            await relay.work(asyncio.Event())
        second = await relay.run_pass()

    assert CONCURRENCY <= len(second.failed) < 2 * CONCURRENCY
    assert second.released == BATCH - len(second.failed)


async def test_a_run_that_changes_while_it_is_pushed_is_pushed_again(
    own: Database, relay: Relay, receiver: Receiver, clock: SteppedClock
) -> None:
    begun, changed = threading.Event(), threading.Event()

    def wait_for_the_change(_document: dict[str, Any]) -> Reply:
        begun.set()
        changed.wait(SECONDS)
        return 200

    receiver.reply = wait_for_the_change
    await store(own)

    first = asyncio.create_task(relay.run_pass())
    await asyncio.to_thread(begun.wait, SECONDS)
    async with own.connection() as connection:
        await price_unpriced(connection, BOOK, clock.now)
    changed.set()
    await first
    await drain(relay)

    assert [document["version"] for document in receiver.documents] == [1, 2]
    assert await status(own) == RelayStatus(0, 0, None)


async def test_a_run_that_was_deleted_leaves_the_queue(own: Database, relay: Relay, receiver: Receiver) -> None:
    await store(own)
    async with own.connection() as connection:
        await connection.execute("DELETE FROM runs")

    await drain(relay)

    assert receiver.documents == []
    assert await status(own) == RelayStatus(0, 0, None)


async def test_relays_share_the_work(own: Database, receiver: Receiver, clock: SteppedClock) -> None:
    ids = await store(own, 5 * BATCH)

    async with relay_to(receiver.url, own, clock) as one, relay_to(receiver.url, own, clock) as other:
        await asyncio.gather(drain(one), drain(other))

    assert receiver.runs == dict.fromkeys(ids, 1)
    assert await status(own) == RelayStatus(0, 0, None)


async def test_a_relay_that_stops_releases_the_runs_it_has_not_tried(
    own: Database, relay: Relay, receiver: Receiver
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def tell_to_stop(_document: dict[str, Any]) -> Reply:
        asyncio.run_coroutine_threadsafe(_set(stop), loop).result(SECONDS)
        return 200

    receiver.reply = tell_to_stop
    await store(own, BATCH)

    done = await relay.run_pass(stop)

    assert done.delivered <= CONCURRENCY
    assert done.released == BATCH - done.delivered
    assert (await relay.run_pass()).taken == done.released


async def _set(event: asyncio.Event) -> None:
    event.set()
