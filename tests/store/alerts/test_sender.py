"""Alerts arrive, signed, at least once and with one id; what is refused is tried again, and given up in the end."""

import asyncio
import base64
import hashlib
import hmac
from contextlib import closing, suppress
from datetime import timedelta

import pytest

from runtally.alerts import posting, targets
from runtally.alerts.sender import LEASE, MAX_ATTEMPTS, MAX_PAUSE
from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.errors import StoreUnavailable
from runtally.models.alert import AlertTarget
from tests.mailbox import CERTIFICATE
from tests.receiver import refuse, running_receiver
from tests.relays import SteppedClock
from tests.serving import PATIENCE_SECONDS
from tests.store.alerts.deliveries import PROJECT, add, delivery, running_editor, running_sender

FAIL_FIRST = """
CREATE SEQUENCE results;
CREATE FUNCTION fail_first() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('results') = 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'disk_full';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fail_first BEFORE UPDATE OF delivered_at ON alert_deliveries FOR EACH ROW EXECUTE FUNCTION fail_first();
"""


async def test_a_webhook_is_signed_and_a_refused_one_comes_again_with_the_same_id_and_body(
    project: Database, clock: SteppedClock
) -> None:
    with running_receiver() as receiver:
        receiver.reply = refuse(503)
        # A name, so that the address that it leads to is connected to, and the name is asked for.
        url = f"{receiver.url.replace('127.0.0.1', 'localhost')}/hook?to=me"
        target = await add(project, clock, url)
        async with running_sender(project, clock) as one:
            await one.work()
            assert (await delivery(project)).answer == "HTTP 503"
            await one.work()
            clock.advance(timedelta(seconds=30))
            receiver.reply = lambda _document: 202
            await one.work()
            await one.work()

    assert len(receiver.bodies) == 2
    first, second = receiver.headers
    assert first["host"].startswith("localhost:")
    assert first["webhook-id"] == second["webhook-id"]
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 30
    assert receiver.bodies[0] == receiver.bodies[1]
    assert receiver.documents[0]["type"] == "alert.test"
    assert target.secret is not None
    for headers, body in zip(receiver.headers, receiver.bodies, strict=True):
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(target.secret.removeprefix("whsec_"))
        expected = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
    done = await delivery(project)
    assert (done.answer, done.attempts, done.delivered_at) == ("HTTP 202", 2, clock.now)


async def test_a_certificate_must_be_the_names_although_its_address_is_connected_to(
    project: Database, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_receiver(CERTIFICATE) as receiver:
        by_name = await add(project, clock, receiver.url.replace("127.0.0.1", "localhost"))
        async with running_sender(project, clock) as one:
            await one.work()
            assert (await delivery(project)).answer == "cannot connect"
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        clock.advance(timedelta(seconds=30))
        async with running_sender(project, clock) as one:
            await one.work()
            assert (await delivery(project)).answer == "HTTP 200"
            async with running_editor(project, clock) as editor, project.session() as session:
                await editor.remove(session, OPERATOR, await targets.get_target(session, "p", by_name.id))
            await add(project, clock, receiver.url)
            await one.work()

    assert (await delivery(project)).answer == "cannot connect"
    assert len(receiver.bodies) == 1


async def test_a_delivery_that_always_fails_is_given_up_and_can_be_tried_again(
    project: Database, clock: SteppedClock
) -> None:
    with running_receiver() as receiver:
        # A redirect could lead anywhere, and is not followed.
        receiver.reply = refuse(302)
        target = await add(project, clock, receiver.url)
        async with running_sender(project, clock) as one:
            for _ in range(MAX_ATTEMPTS + 2):
                await one.work()
                clock.advance(MAX_PAUSE)
            parked = await delivery(project)
            assert len(receiver.bodies) == MAX_ATTEMPTS
            assert (parked.attempts, parked.answer, parked.delivered_at) == (MAX_ATTEMPTS, "HTTP 302", None)
            assert parked.parked_at is not None

            receiver.reply = lambda _document: 200
            async with running_editor(project, clock) as editor, project.session() as session:
                await editor.retry(session, OPERATOR, target, parked.alert_id)
            await one.work()

    assert (await delivery(project)).delivered_at == clock.now


async def test_a_delivery_of_a_killed_process_is_sent_by_another(project: Database, clock: SteppedClock) -> None:
    with running_receiver() as receiver:
        await add(project, clock, receiver.url)
        async with running_sender(project, clock) as one:
            async with project.connection() as connection:
                await connection.execute("UPDATE alert_deliveries SET due_at = $1, attempts = 1", clock.now + LEASE)
            await one.work()
            assert receiver.bodies == []
            clock.advance(LEASE)
            await one.work()

    assert len(receiver.bodies) == 1


async def test_what_arrived_is_not_sent_again_if_the_process_ends_while_another_receiver_is_silent(
    project: Database, clock: SteppedClock
) -> None:
    with running_receiver() as silent, running_receiver() as prompt:
        silent.reply = lambda _document: None
        await add(project, clock, silent.url)
        target = await add(project, clock, prompt.url)
        async with running_sender(project, clock) as one, asyncio.timeout(PATIENCE_SECONDS):
            working = asyncio.create_task(one.work())
            while not await _is_delivered(project, target):  # noqa: ASYNC110  # The sender sets no event of ours.
                await asyncio.sleep(0.01)
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
        clock.advance(LEASE)
        silent.reply = lambda _document: 200
        silent.ended.set()
        async with running_sender(project, clock) as one:
            await one.work()

    assert (len(prompt.bodies), len(silent.bodies)) == (1, 2)


async def test_a_result_that_cannot_be_stored_does_not_keep_others_from_it(
    project: Database, clock: SteppedClock
) -> None:
    async with project.connection() as connection:
        # The first one fails as on a full disk. A sequence counts what is rolled back, too.
        await connection.execute(FAIL_FIRST)
    with running_receiver() as receiver:
        found = [await add(project, clock, f"{receiver.url}/{number}") for number in range(2)]
        async with running_sender(project, clock) as one:
            with pytest.raises(StoreUnavailable):
                await one.work()

    assert [await _is_delivered(project, target) for target in found].count(True) == 1


async def test_nothing_is_posted_into_private_networks(project: Database, clock: SteppedClock) -> None:
    with running_receiver() as receiver:
        await add(project, clock, receiver.url.replace("127.0.0.1", "localhost"))
        async with running_sender(project, clock, allow_private=False) as one:
            await one.work()

    assert receiver.bodies == []
    assert (await delivery(project)).answer == "the host is in a private network, which is not allowed"


async def test_one_that_cannot_be_sent_neither_holds_up_its_neighbours_nor_sends_them_again(
    project: Database, clock: SteppedClock
) -> None:
    with running_receiver() as receiver:
        await add(project, clock, receiver.url)
        broken = await add(project, clock, "https://example.com/")
        async with project.connection() as connection:
            await connection.execute("UPDATE alert_targets SET secret = 'whsec_A' WHERE id = $1", broken.id)
        async with running_sender(project, clock) as one:
            for _ in range(MAX_ATTEMPTS + 2):
                await one.work()
                clock.advance(MAX_PAUSE)

    assert len(receiver.bodies) == 1
    async with project.session() as session:
        found = {delivery.target_id: delivery for delivery, _, _ in await targets.list_deliveries(session, "p")}
    assert found[broken.id].answer == "cannot be sent to this address"
    assert found[broken.id].parked_at is not None


async def test_a_receiver_that_is_never_done_is_not_waited_for(
    project: Database, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def trickle(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0)

    monkeypatch.setattr(posting, "ANSWER_SECONDS", 0.2)
    async with await asyncio.start_server(trickle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await add(project, clock, f"http://127.0.0.1:{port}")
        async with running_sender(project, clock) as one, asyncio.timeout(PATIENCE_SECONDS):
            await one.work()

    assert (await delivery(project)).answer == "no answer within 0.2 s"


async def test_an_answer_whose_body_never_ends_counts_by_its_status(
    project: Database, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        with suppress(ConnectionError), closing(writer):
            await writer.drain()
            await reader.read()

    monkeypatch.setattr(posting, "BODY_SECONDS", 0.2)
    async with await asyncio.start_server(trickle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await add(project, clock, f"http://127.0.0.1:{port}")
        async with running_sender(project, clock) as one, asyncio.timeout(PATIENCE_SECONDS):
            await one.work()

    assert (await delivery(project)).answer == "HTTP 200"


async def test_a_target_is_tested_once_a_minute(project: Database, clock: SteppedClock) -> None:
    target = await add(project, clock, "https://example.com")

    async def test() -> bool:
        async with running_editor(project, clock) as editor, project.session() as session:
            again = await targets.get_target(session, "p", target.id)
            return await editor.queue_test(session, OPERATOR, again, PROJECT)

    assert not await test()
    clock.advance(timedelta(minutes=1))
    assert await test()
    assert not await test()


async def _is_delivered(database: Database, target: AlertTarget) -> bool:
    async with database.session() as session:
        found = {one.target_id: one for one, _, _ in await targets.list_deliveries(session, "p")}
    return found[target.id].delivered_at is not None
