"""Calls over a connection that stays open, as OpenAI's Realtime and Gemini's Live: each answer is one run.

A run of Live is timed from the first part of the answer, because nothing says when its question ended.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Callable

from runtally_client._call import Begin, Begun
from runtally_client._usage import first

_STATE = "_runtally"


def patch_realtime(begin: Begin, _stream_usage: bool, module: Any) -> Iterator[Callable[[], None]]:
    """Read along what both kinds of connections receive: all of it passes through their `parse_event`."""
    for owner in (module.RealtimeConnection, module.AsyncRealtimeConnection):
        parse = vars(owner)["parse_event"]
        owner.parse_event = _reading_along(parse, begin)
        yield partial(setattr, owner, "parse_event", parse)


def _reading_along(parse: Callable[[Any, Any], Any], begin: Begin) -> Callable[[Any, Any], Any]:
    def parse_event(connection: Any, data: Any) -> Any:
        event = parse(connection, data)
        with suppress(Exception):  # A version that is built otherwise: the program goes on without.
            _hear(connection, event, begin)
        return event

    return parse_event


def _hear(connection: Any, event: Any, begin: Begin) -> None:
    calls: Begun = vars(connection).setdefault(_STATE, Begun())
    kind, session = event.type, getattr(event, "session", None)
    if session is not None:
        vars(connection)["_runtally_session"] = session
    session = vars(connection).get("_runtally_session")
    answer = first(event, "response")
    if kind == "response.created":
        calls[answer.id] = begin(_provider(connection), first(session, "model"))
    elif kind == "response.done":
        call = calls.pop(answer.id, None) or begin(_provider(connection), first(session, "model"))
        call.see(event)
        call.end()
    elif kind == "conversation.item.input_audio_transcription.completed":
        # What the caller said is written down by a model of its own.
        heard = first(first(first(session, "audio"), "input"), "transcription")
        call = begin(_provider(connection), first(heard, "model"))
        call.usage(event.usage)
        call.end()
    elif kind.endswith(".delta") and getattr(event, "response_id", None) in calls:
        calls[event.response_id].first_token()


def _provider(connection: Any) -> str:
    host = ""
    with suppress(Exception):
        host = connection._connection.request.headers["Host"]  # noqa: SLF001
    return "azure" if ".azure." in host else "openai"


def patch_live(begin: Begin, _stream_usage: bool, module: Any) -> Iterator[Callable[[], None]]:
    """Read along what a session receives; only who connects it knows the model."""
    connect, receive = vars(module.AsyncLive)["connect"], vars(module.AsyncSession)["_receive"]

    @asynccontextmanager
    async def connecting(live: Any, **asked: Any) -> AsyncIterator[Any]:
        async with connect(live, **asked) as session:
            vars(session)["_runtally_model"] = str(asked.get("model", "")).rpartition("/")[2]
            yield session

    async def receiving(session: Any) -> Any:
        message = await receive(session)
        with suppress(Exception):
            _hear_message(session, message, begin)
        return message

    module.AsyncLive.connect, module.AsyncSession._receive = connecting, receiving  # noqa: SLF001
    yield partial(setattr, module.AsyncLive, "connect", connect)
    yield partial(setattr, module.AsyncSession, "_receive", receive)


def _hear_message(session: Any, message: Any, begin: Begin) -> None:
    state = vars(session)
    usage = first(message, "usage_metadata")
    if usage is None and not first(first(message, "server_content"), "model_turn"):
        return
    call = state.get(_STATE) or begin("google", state.get("_runtally_model"))
    state[_STATE] = None if usage else call
    if usage:
        call.see(message)
        call.end()
