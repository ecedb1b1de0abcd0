"""What all runs of a block of code share: session, user, trace, experiment, tags, metadata. Each thread and task has its own."""

from __future__ import annotations

import functools
import inspect
import uuid
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Callable, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Function = TypeVar("Function", bound=Callable[..., Any])

MAX_TAGS, MAX_TAG, MAX_NAME, MAX_REASON = 20, 64, 256, 64
_NAMES = ("provider", "model", "errorCode", "userId", "sessionId", "traceId", "experimentId")

_shared: ContextVar[dict[str, Any] | None] = ContextVar("runtally_shared", default=None)


@contextmanager
def context(  # noqa: PLR0913  # Each is a keyword.
    *,
    session: object = None,
    user: object = None,
    trace_id: object = None,
    experiment: object = None,
    tags: Iterable[object] = (),
    metadata: Mapping[str, Any] | None = None,
) -> Iterator[None]:
    """Add to all runs that are recorded inside the block. Blocks nest: the inner one wins, tags and metadata add up."""
    given = {"sessionId": session, "userId": user, "traceId": trace_id, "experimentId": experiment}
    fields = {name: str(value) for name, value in given.items() if value is not None}
    token = _shared.set(merge(shared(), {**fields, "tags": tags, "metadata": metadata}))
    try:
        yield
    finally:
        with suppress(ValueError):  # A generator may be ended in another context than it was begun in.
            _shared.reset(token)


def traced(function: Function) -> Function:
    """Give one trace id to all runs of a call of this function, if they have none yet. For functions and coroutines."""

    def trace_id() -> object:
        return shared().get("traceId") or uuid.uuid4().hex

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:  # Whatever the function takes and gives.
            with context(trace_id=trace_id()):
                return await function(*args, **kwargs)

        return cast("Function", coroutine)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with context(trace_id=trace_id()):
            return function(*args, **kwargs)

    return cast("Function", call)


def shared() -> dict[str, Any]:
    """Return the fields of the blocks around the caller."""
    return _shared.get() or {}


def merge(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> dict[str, Any]:
    """Put fields of a run together. The inner ones win, unless they are None; tags and metadata add up."""
    fields = {**outer, **{name: value for name, value in inner.items() if value is not None}}
    tags = [*(outer.get("tags") or ()), *(inner.get("tags") or ())]
    if tags:
        fields["tags"] = list(dict.fromkeys(str(tag)[:MAX_TAG] for tag in tags))[:MAX_TAGS]
    else:
        fields.pop("tags", None)
    if outer.get("metadata") and inner.get("metadata"):
        fields["metadata"] = {**outer["metadata"], **inner["metadata"]}
    return fields


def within_limits(fields: dict[str, Any]) -> dict[str, Any]:
    """Shorten names that the server would refuse the run for."""
    for name in _NAMES:
        if isinstance(fields.get(name), str):
            fields[name] = fields[name][:MAX_NAME]
    if isinstance(fields.get("finishReason"), str):
        fields["finishReason"] = fields["finishReason"][:MAX_REASON]
    return fields
