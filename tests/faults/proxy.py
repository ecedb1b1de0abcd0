"""A TCP proxy between clients and service that spoils a connection when a test asks for it."""

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.faults.plan import Fault, Strike

CHUNK = 65_536
LONGEST_DELAY = 1.0
# Closing with this resets the connection: what was not read is lost at the other end.
_RESET = struct.pack("ii", 1, 0)

_OF_REQUESTS = {Fault.CUT_REQUEST, Fault.DELAY, Fault.STALL}


class Proxy:
    """Takes what comes to the port `port`, and passes it on to that of the service."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._spoiled_requests: deque[Strike] = deque()
        self._spoiled_answers: deque[Strike] = deque()
        self.port = 0
        self.spoiled = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()

    def spoil(self, strike: Strike) -> None:
        """The next request, or answer, that comes along has it."""
        (self._spoiled_requests if strike.fault in _OF_REQUESTS else self._spoiled_answers).append(strike)

    @property
    def has_spoiled_all(self) -> bool:
        return not self._spoiled_requests and not self._spoiled_answers

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_service = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            _reset(writer)
            return
        service_reader, service_writer = to_service
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, service_writer, self._spoiled_requests))
                both.create_task(self._pass_on(service_reader, writer, self._spoiled_answers))
        except* (OSError, _Broken):
            pass
        finally:
            _reset(writer)
            _reset(service_writer)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, spoiled: deque[Strike]
    ) -> None:
        while data := await reader.read(CHUNK):
            if spoiled:
                await self._spoil(data, writer, spoiled.popleft())
            writer.write(data)
            await writer.drain()
        # Either end that leaves takes the connection with it.
        raise _Broken

    async def _spoil(self, data: bytes, writer: asyncio.StreamWriter, strike: Strike) -> None:
        """Returns if the data is to be passed on after all."""
        self.spoiled += 1
        if strike.fault in {Fault.DELAY, Fault.STALL}:
            await asyncio.sleep(LONGEST_DELAY * strike.fraction)
        if strike.fault is Fault.DELAY:
            return
        if strike.fault in {Fault.CUT_REQUEST, Fault.CUT_ANSWER}:
            writer.write(data[: int(len(data) * strike.fraction)])
            await writer.drain()
        raise _Broken


class _Broken(Exception):
    """The connection ends here."""


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
