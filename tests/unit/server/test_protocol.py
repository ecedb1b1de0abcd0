"""What goes over the wire together."""

import asyncio

import pytest

from webapp.server.protocol import MAX_HELD_BYTES, CoalescingTransport


@pytest.fixture
async def pipe() -> tuple[CoalescingTransport, list[bytes]]:
    """A transport, and what it was given to write, piece by piece."""
    written: list[bytes] = []

    class Transport(asyncio.Transport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            written.append(bytes(data))

        def is_closing(self) -> bool:
            return b"closed" in written

        def close(self) -> None:
            written.append(b"closed")

    return CoalescingTransport(Transport(), asyncio.get_running_loop()), written


async def test_writes_of_one_turn_are_sent_together(pipe: tuple[CoalescingTransport, list[bytes]]) -> None:
    transport, written = pipe
    transport.write(b"head ")
    transport.write(b"body")
    assert written == []

    await asyncio.sleep(0)
    transport.write(b"next")
    await asyncio.sleep(0)

    assert written == [b"head body", b"next"]


async def test_nothing_is_held_back_when_it_is_much_or_the_last(pipe: tuple[CoalescingTransport, list[bytes]]) -> None:
    transport, written = pipe
    transport.write(b"x" * MAX_HELD_BYTES)
    transport.write(b"y")
    assert list(map(len, written)) == [MAX_HELD_BYTES + 1]

    transport.write(b"bye ")
    transport.close()
    await asyncio.sleep(0)

    assert written[1:] == [b"bye ", b"closed"]
