"""Calls over a connection that stays open, as OpenAI's Realtime and Gemini's Live: each answer is one run, and each session of OpenAI's Live.

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
_ENDS = ("response.done", "response.completed", "response.failed", "response.incomplete")


def patch_realtime(begin: Begin, _stream_usage: bool, module: Any) -> Iterator[Callable[[], None]]:
    """Read along what connections of Realtime and of Live receive: all of it passes through their `parse_event`."""
    names = (f"{kind}{api}Connection" for api in ("Realtime", "Live") for kind in ("", "Async"))
    for owner in (vars(module)[name] for name in names if name in vars(module)):
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


def patch_voice(begin: Begin, _stream_usage: bool, module: Any) -> Iterator[Callable[[], None]]:
    """Read along what a session of speech of the OpenAI Agents SDK receives, over a connection of its own."""
    owner = module.OpenAIRealtimeWebSocketModel
    handle = vars(owner)["_handle_ws_event"]

    async def handling(model: Any, event: Any) -> Any:
        with suppress(Exception):
            _hear(model, event, begin)
        return await handle(model, event)

    owner._handle_ws_event = handling  # noqa: SLF001
    yield partial(setattr, owner, "_handle_ws_event", handle)


def _hear(connection: Any, event: Any, begin: Begin) -> None:
    calls: Begun = vars(connection).setdefault(_STATE, Begun())
    kind, session = first(event, "type"), first(event, "session")
    if session is not None:
        vars(connection)["_runtally_session"] = session
    session = vars(connection).get("_runtally_session")
    answer = first(event, "response")
    if kind == "response.created":
        calls[first(answer, "id")] = begin(_provider(connection), first(answer, "model") or first(session, "model"))
    elif kind in _ENDS:
        model = first(answer, "model") or first(session, "model")
        call = calls.pop(first(answer, "id"), None) or begin(_provider(connection), model)
        call.see(event)
        call.end()
    elif kind == "response.event":  # Whom a session of Live asked.
        _hear(connection, first(event, "event"), begin)
    elif kind == "session.closed" and first(
        event, "usage"
    ):  # What was said in a session of Live is charged by its seconds.
        call, usage = begin(_provider(connection), first(session, "model")), first(event, "usage")
        call.usage(usage)
        call.update(latencyMs=round(1000 * (first(usage, "seconds") or 0)))
        call.end()
    elif kind == "conversation.item.input_audio_transcription.completed":
        # What the caller said is written down by a model of its own.
        heard = first(first(first(session, "audio"), "input"), "transcription")
        call = begin(_provider(connection), first(heard, "model"))
        call.usage(first(event, "usage"))
        call.end()
    elif kind.endswith(".delta") and first(event, "response_id") in calls:
        calls[first(event, "response_id")].first_token()


def _provider(connection: Any) -> str:
    host = ""
    with suppress(Exception):
        socket = first(connection, "_connection", "_websocket")
        host = socket.request.headers["Host"]
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
