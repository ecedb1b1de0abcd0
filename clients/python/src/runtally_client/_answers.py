"""Answers are passed on as they are and read on the way: at once, or along with who reads the stream."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from runtally_client._call import Call, inside

# Events that come before the model has begun to answer.
_PREAMBLE = ("message_start", "ping", "response.created", "response.queued", "response.in_progress")


def observed(answer: Any, call: Call | None) -> Any:
    """Give an answer to the caller, and record the call when it has been read. It is the same object, except a bare iterator."""
    return _observed(answer, _Reading(call)) if call else answer


class _Reading:
    """Passes on the parts of a stream, synchronous or not. The call ends with it: when it is read, closed or forgotten.

    As a block it is around what an SDK does to get the next part. What the SDK closes there ends nothing, an error does.
    """

    def __init__(self, call: Call) -> None:
        self.call = call
        self.parts: Any = None
        self._is_getting = False

    def __iter__(self) -> _Reading:
        return self

    __aiter__ = __iter__

    def __next__(self) -> Any:
        with self:
            part = next(self.parts)
        return self._seen(part)

    async def __anext__(self) -> Any:
        with self:
            part = await self.parts.__anext__()
        return self._seen(part)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.parts, name)

    def __enter__(self) -> None:
        self._is_getting = True

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._is_getting = False
        if isinstance(error, (StopIteration, StopAsyncIteration)):
            self.call.end_stream()
        elif error is not None:
            self.call.end(error)

    def close(self) -> None:
        """End the call, where the caller closes the answer."""
        if not self._is_getting:
            self.call.end()

    def __del__(self) -> None:
        self.call.end()

    def _seen(self, part: Any) -> Any:
        if getattr(part, "type", None) not in _PREAMBLE:
            self.call.first_token()
        self.call.see(part)
        return part


def _observed(answer: Any, reading: _Reading) -> Any:
    try:
        if hasattr(answer, "http_response") and not answer.http_response.is_closed:  # A raw one.
            answer.parse = inside(lambda *_, **__: reading, answer.parse, lambda parsed, _: _observed(parsed, reading))
            _close_with(answer.http_response, reading)
        elif name := next((each for each in ("_iterator", "generator") if hasattr(answer, each)), None):
            reading.parts = getattr(answer, name)
            setattr(answer, name, reading)
            _close_with(answer.response, reading)
        elif hasattr(answer, "__next__") or hasattr(answer, "__anext__"):
            reading.parts = answer
            return reading
        else:  # The SDK keeps what it parses.
            reading.call.see(answer.parse() if hasattr(answer, "http_response") else answer)
            reading.call.end()
    except Exception:  # noqa: BLE001  # A version that is built otherwise: the run is recorded without its tokens.
        reading.call.end()
    return answer


def _close_with(response: Any, reading: _Reading) -> None:
    for name in ("close", "aclose"):
        if hasattr(response, name):
            setattr(response, name, inside(lambda *_, **__: closing(reading), getattr(response, name)))
