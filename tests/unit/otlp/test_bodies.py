"""Large bodies of OTLP, of which few are processed at once."""

import asyncio

import pytest

from runtally.errors import StoreBusy
from runtally.otlp.bodies import LARGE_BODY, MAX_CONCURRENT, MAX_OF_ONE, LargeBodies

LARGE = b"x" * (LARGE_BODY + 1)


class Sending:
    """Requests of senders, each of which is processed until it is told to end."""

    def __init__(self) -> None:
        self._bodies = LargeBodies(2 * len(LARGE))
        self.begun: list[str] = []
        self.end = asyncio.Event()

    async def send(self, sender: str, body: bytes = LARGE) -> None:
        async with self._bodies.unpacked(body, "", sender):
            self.begun.append(sender)
            await self.end.wait()


async def settled() -> None:
    """Let every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_sender_of_large_bodies_leaves_a_place_to_others() -> None:
    sending = Sending()
    async with asyncio.TaskGroup() as requests:
        for sender in ("greedy", "greedy", "greedy", "other", "third"):
            requests.create_task(sending.send(sender))
        await settled()
        begun = list(sending.begun)
        sending.end.set()

    assert begun == ["greedy", "other"]
    assert len(begun) == MAX_CONCURRENT
    assert sorted(sending.begun) == ["greedy", "greedy", "greedy", "other", "third"]


async def test_a_sender_whose_line_is_full_is_refused_and_nobody_else_is() -> None:
    sending = Sending()
    async with asyncio.TaskGroup() as requests:
        for _ in range(MAX_OF_ONE):
            requests.create_task(sending.send("greedy"))
        await settled()
        with pytest.raises(StoreBusy):
            await sending.send("greedy")
        # Small bodies wait for nothing.
        requests.create_task(sending.send("greedy", b"small"))
        requests.create_task(sending.send("other"))
        await settled()
        begun = list(sending.begun)
        sending.end.set()

    assert begun == ["greedy", "greedy", "other"]
    # Once its requests are done, the sender may send as many as before.
    await sending.send("greedy")
    assert sending.begun.count("greedy") == MAX_OF_ONE + 2


async def test_one_that_gives_up_waiting_leaves_its_turn_to_the_next() -> None:
    sending = Sending()
    async with asyncio.TaskGroup() as requests:
        requests.create_task(sending.send("one"))
        await settled()
        gone = requests.create_task(sending.send("one"))
        requests.create_task(sending.send("one"))
        await settled()
        gone.cancel()
        await settled()
        sending.end.set()

    assert sending.begun == ["one", "one"]
