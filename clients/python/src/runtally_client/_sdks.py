"""OpenAI's and Anthropic's SDKs. One generator makes both, and each call passes through one method of their clients, `request`.

So a call is one run with all its retries, whether it was `create`, `parse` or `stream`, raw or not.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Callable

from runtally_client._answers import Reading, aread_along, read_along, recorded, when_closed
from runtally_client._call import outer_call, watched

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runtally_client._call import Begin, Call

_CALLS = ("/chat/completions", "/completions", "/responses", "/embeddings", "/v1/messages", "/v1/complete")
# Whose server it is, by the name before the last dot of its host, or by a part of the client's class.
_HOSTS = (
    "azure",
    "cerebras",
    "cohere",
    "deepseek",
    "fireworks",
    "groq",
    "mistral",
    "openrouter",
    "perplexity",
    "together",
)
_OTHER_HOSTS = {"amazonaws": "aws", "googleapis": "google", "moonshot": "moonshotai", "x": "x-ai"}
_CLASSES = {"Azure": "azure", "Bedrock": "aws", "Vertex": "google"}
_MAX_FRAMES = 100


def record_requests(request: Callable[..., Any], sdk: str, begin: Begin, *, stream_usage: bool) -> Callable[..., Any]:
    """Wrap `request` of a client."""

    def watch(client: Any, _cast_to: Any, options: Any, **_: Any) -> AbstractContextManager[Call | None]:
        if not _is_call(options):
            return nullcontext()
        body = options.json_data
        if stream_usage and options.url.endswith("/chat/completions") and body.get("stream"):
            options.json_data = {"stream_options": {"include_usage": True}, **body}
        return watched(begin, _provider(client, sdk), body.get("model"))

    return recorded(request, watch, _observed)


def _is_call(options: Any) -> bool:
    try:
        is_call = options.method.lower() == "post" and options.url.partition("?")[0].endswith(_CALLS)
    except AttributeError:
        return False
    return (
        is_call
        and isinstance(options.json_data, dict)
        and (outer_call() is not None or not _is_recorded_by_framework())
    )


def _is_recorded_by_framework() -> bool:
    """Look whether LiteLLM or LangChain makes the call for a program that has their callback, which records it itself."""
    litellm = sys.modules.get("litellm")
    callbacks = list(getattr(litellm, "callbacks", ()))
    if not _has_ours(callbacks) and "runtally_client.langchain" not in sys.modules:
        return False
    frame, frames = inspect.currentframe(), 0
    while frame and frames < _MAX_FRAMES:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("litellm.") and _has_ours(callbacks):
            return True
        if name.startswith("langchain_core.language_models."):
            manager = frame.f_locals.get("run_manager")
            if _has_ours(getattr(manager, "handlers", ())):
                return True
        frame, frames = frame.f_back, frames + 1
    return False


def _has_ours(callbacks: Iterable[object]) -> bool:
    return any(type(each).__module__ in ("runtally_client.litellm", "runtally_client.langchain") for each in callbacks)


def _provider(client: Any, sdk: str) -> str:
    names = " ".join(each.__name__ for each in type(client).__mro__)
    host = str(getattr(getattr(client, "base_url", None), "host", "")).split(".")
    domain = host[-2] if len(host) > 1 else ""
    by_host = domain if domain in _HOSTS else _OTHER_HOSTS.get(domain, sdk)
    return next((name for part, name in _CLASSES.items() if part in names), by_host)


def _observed(answer: Any, reading: Reading) -> Any:
    """Give the same object back, and record the call when its answer has been read."""
    try:
        if hasattr(answer, "http_response"):
            _observe_raw(answer, reading)
        elif hasattr(answer, "_iterator"):
            _observe_stream(answer, reading)
        else:
            reading.see(answer)
            reading.end()
    except Exception:  # noqa: BLE001  # A version that is built otherwise: the run is recorded without its tokens.
        reading.end()
    return answer


def _observe_stream(stream: Any, reading: Reading) -> None:
    along = aread_along if hasattr(stream, "__anext__") else read_along
    stream._iterator = along(stream._iterator, reading)  # noqa: SLF001
    when_closed(stream.response, reading)


def _observe_raw(raw: Any, reading: Reading) -> None:
    """Read along when the caller parses a raw response. What was received whole is parsed now: the SDK keeps the result."""

    def parse(*args: Any, **kwargs: Any) -> Any:
        del raw.parse
        reading.is_inside = True  # It closes the response when it has read it.
        try:
            parsed = raw.parse(*args, **kwargs)
        finally:
            reading.is_inside = False
        return _awaited(parsed, reading) if inspect.iscoroutine(parsed) else _observed(parsed, reading)

    raw.parse = parse
    when_closed(raw.http_response, reading)
    if raw.http_response.is_closed:
        raw.parse()


async def _awaited(parsed: Any, reading: Reading) -> Any:
    reading.is_inside = True
    try:
        answer = await parsed
    finally:
        reading.is_inside = False
    return _observed(answer, reading)
