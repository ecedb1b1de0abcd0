"""What is read of an answer: its usage, its model, why it ended. Streams are passed on as they are, and read along."""

from __future__ import annotations

import inspect
import weakref
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractContextManager

    from runtally_client._call import Call

    Watch = Callable[..., AbstractContextManager["Call | None"]]

# Events that come before the model has begun to answer.
_PREAMBLE = ("message_start", "ping", "response.created", "response.queued", "response.in_progress")


class Reading:
    """What is known of one answer so far. The call ends with it: at the end of a stream, when it is closed or forgotten."""

    def __init__(self, call: Call) -> None:
        self.is_inside = False
        self._call = call
        self._first_usage: object = None
        self._last_usage: object = None
        self._failure: str | None = None

    def see(self, answer: object) -> None:
        """Read an answer."""
        with suppress(Exception):  # Of a shape that is not known: the caller's call has succeeded.
            self._see(answer)

    def see_part(self, part: object) -> None:
        """Read a part of a stream."""
        if getattr(part, "type", None) not in _PREAMBLE:
            self._call.first_token()
        self.see(part)

    def end(self, error: BaseException | None = None) -> None:
        """Record the call."""
        if not self._call.is_over:
            self._call.usage(self if self._first_usage is not None else None)
            self._call.end(error, self._failure)

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.end(error)

    def __getattr__(self, name: str) -> Any:
        # The usage of a stream: Anthropic tells of the input at its start, and of the output at its end.
        if name.startswith("_"):
            raise AttributeError(name)
        last = getattr(self._last_usage, name, None)
        return getattr(self._first_usage, name, None) if last is None else last

    def __del__(self) -> None:
        self.end()

    def _see(self, answer: object) -> None:
        kind = getattr(answer, "type", None)
        whole = getattr(answer, "response", None) or getattr(answer, "message", None) or answer
        usage = getattr(whole, "usage", None) or getattr(whole, "usage_metadata", None)
        if usage is not None:
            self._first_usage = self._first_usage or usage
            self._last_usage = usage
        model = getattr(whole, "model", None) or getattr(whole, "model_version", None)
        if isinstance(model, str):
            self._call.answered_by(model)
        embedded = [each.statistics.token_count for each in getattr(whole, "embeddings", None) or ()]
        if embedded:
            self._call.update(inputTokens=round(sum(embedded)))
        reason = _finish_reason(whole)
        if reason:
            self._call.update(finishReason=reason)
        if kind == "error" or getattr(whole, "status", None) == "failed":
            self._failure = str(getattr(getattr(whole, "error", whole), "code", None) or "failed")


def _finish_reason(answer: Any) -> str | None:  # Of any SDK.
    part: Any = next(iter(getattr(answer, "choices", None) or getattr(answer, "candidates", None) or ()), None)
    reason = (
        getattr(part, "finish_reason", None)
        or getattr(answer, "stop_reason", None)
        or getattr(getattr(answer, "delta", None), "stop_reason", None)
        or getattr(getattr(answer, "incomplete_details", None), "reason", None)
    )
    if reason is None:
        # Of the states of a response, these end it.
        status = getattr(answer, "status", None)
        return status if status in ("completed", "failed", "cancelled") else None
    return str(getattr(reason, "value", reason))


def recorded(function: Callable[..., Any], watch: Watch, observed: Callable[[Any, Reading], Any]) -> Callable[..., Any]:
    """Wrap a function that calls a model, or its coroutine: `watch` begins the call, `observed` gives the answer to the caller."""

    @wraps(function)
    def synchronous(*args: Any, **kwargs: Any) -> Any:
        with watch(*args, **kwargs) as call:
            answer = function(*args, **kwargs)
        return observed(answer, Reading(call)) if call else answer

    @wraps(function)
    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        with watch(*args, **kwargs) as call:
            answer = await function(*args, **kwargs)
        return observed(answer, Reading(call)) if call else answer

    return asynchronous if inspect.iscoroutinefunction(function) else synchronous


def read_along(items: Iterator[Any], reading: Reading) -> Iterator[Any]:
    """Pass on the parts of a stream."""
    with reading:
        while True:
            reading.is_inside = True
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                reading.is_inside = False
            reading.see_part(item)
            yield item


async def aread_along(items: AsyncIterator[Any], reading: Reading) -> AsyncIterator[Any]:
    """Pass on the parts of an asynchronous stream."""
    with reading:
        while True:
            reading.is_inside = True
            try:
                item = await items.__anext__()
            except StopAsyncIteration:
                return
            finally:
                reading.is_inside = False
            reading.see_part(item)
            yield item


def when_closed(response: Any, reading: Reading) -> None:  # Of httpx, or of what an SDK has instead.
    """End the call when this HTTP response is closed."""
    alive = weakref.ref(reading)  # What is forgotten unread ends when the stream itself goes.

    def closing(name: str) -> Any:
        def close(*args: Any, **kwargs: Any) -> Any:
            reading = alive()
            if reading and not reading.is_inside:  # Else it is the SDK, which closes what it has read.
                reading.end()
            vars(response).pop(name, None)
            return getattr(response, name)(*args, **kwargs)

        return close

    for name in ("close", "aclose"):
        if hasattr(response, name):
            setattr(response, name, closing(name))
