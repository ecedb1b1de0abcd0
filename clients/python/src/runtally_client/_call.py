"""One call of a model, timed: what `run` gives, and what instrumentation makes of each call of an SDK. And what calls share."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any, Callable, Optional, TypeVar, cast

from runtally_client._usage import fallback_of, first, parts_of, tokens_of

Function = TypeVar("Function", bound=Callable[..., Any])
Fields = dict[str, Any]

log = logging.getLogger("runtally")

MAX_TAGS, MAX_TAG, MAX_BEGUN = 20, 64, 10_000
# Of names longer than these the server would refuse the run.
_NAMES = ("provider", "model", "errorCode", "userId", "sessionId", "traceId", "experimentId")
_LIMITS = {**dict.fromkeys(_NAMES, 256), "finishReason": 64, "serviceTier": 32, "region": 64}
_OF_PARTS = (
    "provider", "timestamp", "sessionId", "userId", "traceId", "experimentId", "tags", "metadata", "serviceTier", "region",
)  # fmt: skip
_SHORTEST = min(_LIMITS.values())
_ENDS = ("completed", "failed", "cancelled")  # Of a response's states those that end it.
# What begins a stream whose end says why it ended.
_BEGINNINGS = ("message_start", "response.created", "chat.completion.chunk")

# What SDKs, frameworks and hosts call the providers.
_PROVIDERS = {
    "aws": ("amazonaws", "amazon_bedrock", "bedrock", "bedrock_converse"),
    "azure": ("azure_ai",),
    "databricks": ("azuredatabricks",),
    "fireworks": ("fireworks_ai",),
    "google": ("gemini", "google_genai", "google_vertexai", "googleapis", "vertex_ai"),
    "mistral": ("mistralai",),
    "minimax": ("minimaxi",),
    "moonshotai": ("moonshot",),
    "ollama": ("ollama_chat",),
    "openai": ("text-completion-openai",),
    "ovhcloud": ("ovh",),
    "together": ("together_ai",),
    "x-ai": ("x", "xai"),
    "zai": ("z",),
    "zhipuai": ("bigmodel",),
}

_shared: ContextVar[Fields | None] = ContextVar("runtally_shared", default=None)
_outer: ContextVar[Call | None] = ContextVar("runtally_call", default=None)


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
    names = {name: str(value) for name, value in given.items() if value is not None}
    token = _shared.set(merge(shared(), {**names, "tags": tags, "metadata": metadata}))
    try:
        yield
    finally:
        with suppress(ValueError):  # A generator may be ended in another context than it was begun in.
            _shared.reset(token)


def traced(function: Function) -> Function:
    """Give one trace id to all runs of a call of this function, if they have none yet. For functions and coroutines."""
    return cast("Function", inside(lambda *_, **__: context(trace_id=shared().get("traceId") or new_id()), function))


def inside(
    block: Callable[..., AbstractContextManager[Any]],
    function: Callable[..., Any],
    finish: Callable[[Any, Any], Any] = lambda answer, _: answer,
) -> Callable[..., Any]:
    """Wrap a function or coroutine to run inside a block. `finish` makes what is returned, of the answer and the block's value."""
    from inspect import iscoroutinefunction  # Not while the program starts.

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with block(*args, **kwargs) as value:
            answer = function(*args, **kwargs)
        return finish(answer, value)

    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        with block(*args, **kwargs) as value:
            answer = await function(*args, **kwargs)
        return finish(answer, value)

    return coroutine if iscoroutinefunction(function) else call


def shared() -> Fields:
    """Return the fields of the blocks around the caller."""
    return _shared.get() or {}


def new_id() -> str:
    """Make an id that nothing else has."""
    return os.urandom(16).hex()


def provider_name(name: str | None) -> str | None:
    """Return the provider that SDKs, frameworks and hosts know by this name."""
    return next((provider for provider, names in _PROVIDERS.items() if name in names), name)


def merge(outer: Mapping[str, Any], inner: Mapping[str, Any]) -> Fields:
    """Put fields of a run together. The inner ones win, unless they are None; tags and metadata add up."""
    fields = {**outer, **{name: value for name, value in inner.items() if value is not None}}
    if "tags" in fields:
        tags = [str(tag)[:MAX_TAG] for each in (outer, inner) for tag in each.get("tags") or ()]
        fields["tags"] = list(dict.fromkeys(tags))[:MAX_TAGS] or None
    if "metadata" in fields:
        fields["metadata"] = {**(outer.get("metadata") or {}), **(inner.get("metadata") or {})} or None
    return fields


def within_limits(fields: Fields) -> Fields:
    """Leave out what is not known, and shorten names that the server would refuse the run for."""
    return {
        name: value[: _LIMITS.get(name)] if isinstance(value, str) and len(value) > _SHORTEST else value
        for name, value in fields.items()
        if value is not None
    }


class Call:
    """A call that has begun. It is recorded once, when it ends; none of its methods raises anything into the caller."""

    def __init__(
        self, record: Callable[[Fields], None], provider: str | None, model: str | None, **fields: Any
    ) -> None:
        self.is_over = False
        self.inner_error: str | None = None
        self._record = record
        self.fields = merge(shared(), {"provider": provider or None, "model": model or None, **fields})
        self.fill(timestamp=datetime.now(timezone.utc).isoformat())
        self._began = time.perf_counter()
        self._before: Call | None = None
        # Of a stream the last and the first: Anthropic reports the input at its start, and the output at its end.
        self._usages: list[object] = []
        self._beside: dict[str, Any] = {}
        self._parts: list[Fields] = []
        self._failure: str | None = None
        self._is_open = False
        self._is_chat_stream = False
        # Of an answer in the background that is asked for again; and whether it is still being made.
        self.is_retrieved = self._is_waiting = False

    def update(self, **fields: Any) -> None:
        """Set fields of the run, by the names of the API, such as `finishReason="stop"` or `metadata={...}`."""
        self.fields = merge(self.fields, fields)

    def fill(self, **fields: Any) -> None:
        """Set those fields of the run that are not known yet."""
        self.fields = merge(fields, self.fields)

    def usage(self, *usages: object) -> None:
        """Count the tokens of an answer's usage, in the shape of any vendor."""
        with suppress(Exception):  # Of a shape that is not known: the caller's call has succeeded.
            self.update(**tokens_of(*usages))
            self._parts = [{**part, "model": model} for model, part in parts_of(*usages)]
            asked, answered = self.fields.get("model"), fallback_of(*usages)
            if answered and answered != asked:  # It is this one that is paid for.
                self.update(model=answered, metadata={"requestedModel": asked})
            if self._parts:
                self.fill(runId=new_id())

    def see(self, answer: object) -> None:
        """Read an answer, or a part of a streamed one: its usage, its model, and why it ended."""
        with suppress(Exception):
            self._see(answer)

    def first_token(self) -> None:
        """Say that the first part of a streamed answer has come. Later parts change nothing."""
        self.fields.setdefault("timeToFirstTokenMs", self._elapsed())

    def end_stream(self) -> None:
        """Record the run of a stream that was read to its end. SDKs raise nothing where a proxy left the last events out."""
        self.end(error_code="stream_cut" if self._is_open else None)

    def end(self, error: BaseException | None = None, error_code: str | None = None) -> None:
        """Record the run. Only the first end counts. Who reads a stream may stop when they have enough: that is no error."""
        if self.is_over:
            return
        self.is_over = True
        if self._usages:
            self.usage(*self._usages, self._beside)
        if self._is_waiting or (self.is_retrieved and "runId" not in self.fields):
            return  # Who retrieves what was made in the background records it.
        has_left = isinstance(error, GeneratorExit) or (self._is_open and type(error).__name__ == "CancelledError")
        is_error = error is not None and not has_left
        code = type(error).__name__ if is_error else error_code or self._failure
        if code:
            is_timeout = "timeout" in code.lower() or isinstance(error, TimeoutError)
            self.fill(errorCode=code, status="timeout" if is_timeout else "error")
        elif self._is_open:  # Whoever read the stream left it, and its last counts are not known.
            self.fill(finishReason="cancelled")
        elif self._is_chat_stream and not self._usages:
            say_how_to_ask()
        self.fill(provider="unknown", model="unknown", latencyMs=self._elapsed())
        self._record(self.fields)
        for place, part in enumerate(self._parts):
            # Whoever sends the run again sends the same parts.
            own = {"runId": f"{self.fields['runId']}-{place}", "metadata": {"partOf": self.fields["runId"]}}
            self._record(merge({name: self.fields[name] for name in _OF_PARTS if name in self.fields}, {**part, **own}))

    def enter(self) -> Call:
        """Make this the outermost call, so that calls within it are not recorded."""
        self._before = _outer.get()
        _outer.set(self)
        return self

    def leave(self) -> None:
        """Undo `enter`."""
        if _outer.get() is self:
            _outer.set(self._before)

    __enter__ = enter

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.leave()
        self.end(error)

    async def __aenter__(self) -> Call:  # noqa: PYI034  # Its class is final.
        return self.enter()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.__exit__(kind, error, trace)

    def _see(self, answer: object) -> None:
        whole = first(answer, "response", "message", "interaction") or answer
        usage, model = first(whole, "usage", "usage_metadata"), first(whole, "model", "model_version")
        usage = usage or first(first(whole, "x_groq"), "usage") or first(whole, "timings") or _counted(whole)
        if usage:
            self._usages = [usage, *self._usages[-1:]]
        # OpenAI writes these beside the usage.
        for name in ("service_tier", "tool_usage"):
            self._beside[name] = first(whole, name) or self._beside.get(name)
        if isinstance(model, str):
            self._answered_by(model)
        embedded = [each.statistics.token_count for each in first(whole, "embeddings") or ()]
        choice = next(iter(first(whole, "choices", "candidates") or ()), None)
        status = first(whole, "status")
        reason = (
            first(choice, "finish_reason")
            or first(whole, "stop_reason")
            or first(first(whole, "delta"), "stop_reason")
            or first(first(whole, "incomplete_details"), "reason")
            or (status if status in _ENDS else None)
        )
        self.update(
            inputTokens=round(sum(embedded)) or None, finishReason=reason and str(getattr(reason, "value", reason))
        )
        if first(whole, "background") is True:
            self.fill(runId=first(whole, "id"))  # The same, whoever retrieves it.
            self._is_waiting = status in ("queued", "in_progress")
            began, ended = first(whole, "created_at"), first(whole, "completed_at")
            if began and ended:
                self.update(timestamp=datetime.fromtimestamp(began, timezone.utc).isoformat())
                self.update(latencyMs=round(1000 * (ended - began)))
        kind = first(answer, "type", "object")
        self._is_chat_stream = kind == "chat.completion.chunk"
        # Some servers tell a chat's tokens, and not why it ended.
        has_ended = bool(reason or (usage and self._is_chat_stream))
        has_begun = kind in _BEGINNINGS or bool(first(answer, "candidates") and "timeToFirstTokenMs" in self.fields)
        self._is_open = (self._is_open or has_begun) and not (has_ended or self.fields.get("finishReason"))
        if kind == "error" or status == "failed":
            self._failure = str(first(first(whole, "error") or whole, "code") or "failed")

    def _answered_by(self, model: str) -> None:
        asked = self.fields.get("model")
        if asked and self.fields.get("provider") == "azure":  # There it is this one that has a price.
            self.update(model=model, metadata={"deployment": asked})
        elif asked and model != asked:
            self.update(metadata={"responseModel": model})
        self.fill(model=model)

    def _elapsed(self) -> int:
        return round(1000 * (time.perf_counter() - self._began))


@functools.cache  # Once.
def say_how_to_ask() -> None:
    log.warning(
        "A stream told no tokens, so its run costs nothing: instrument(stream_usage=True) asks for them, or "
        'stream_options={"include_usage": True} in the call'
    )


def _counted(answer: object) -> Fields | None:
    """Return what is charged of an answer without a usage: its images, or the seconds of what it heard."""
    images = first(answer, "data", "generated_images")
    if isinstance(images, (list, tuple)) and first(images[0], "b64_json", "url", "image"):
        return {"images": len(images)}
    seconds = first(answer, "duration")
    return {"seconds": seconds} if isinstance(seconds, (int, float)) else None


Begin = Callable[[Optional[str], Optional[str]], Call]


class Begun(dict[Any, Call]):
    """Calls that a framework has begun, by its own ids. Of those that it never ends the oldest are forgotten."""

    def __setitem__(self, key: object, call: Call) -> None:
        if len(self) >= MAX_BEGUN:
            self.pop(next(iter(self)), None)
        super().__setitem__(key, call)


def outer_call() -> Call | None:
    """Return the call that is already being recorded around the caller: the outermost counts, those within it do not."""
    call = _outer.get()
    return call if call and not call.is_over else None


@contextmanager
def watched(begin: Begin, provider: str, model: str | None, **fields: Any) -> Iterator[Call | None]:
    """Begin a call around its request, which ends it if it fails. None if it is part of a call that is recorded already."""
    outer = outer_call()
    call = outer or begin(provider, model).enter()
    call.fill(provider=provider, model=model, **fields)
    try:
        yield None if outer else call
    except BaseException as error:
        call.inner_error = type(error).__name__
        if not outer:
            call.end(error)
        raise
    finally:
        if not outer:
            call.leave()
