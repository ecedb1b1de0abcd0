"""Which SDKs are instrumented, and how that is undone."""

from __future__ import annotations

import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Callable

from runtally_client._answers import Reading, aread_along, read_along, recorded
from runtally_client._call import watched
from runtally_client._imports import forget, when_imported
from runtally_client._sdks import record_requests

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from runtally_client._call import Begin, Call

log = logging.getLogger("runtally")

MODULES = {"openai": "openai", "anthropic": "anthropic", "google-genai": "google.genai", "litellm": "litellm"}
_undo: dict[str, list[Callable[[], None]]] = {}


def instrument(names: tuple[str, ...], begin: Begin, *, stream_usage: bool) -> None:
    """Instrument these SDKs, or all that are known, now or as soon as the program imports them. Twice is once."""
    patches: dict[str, Callable[..., None]] = {
        "openai": partial(_patch_clients, "openai", ("OpenAI", "AsyncOpenAI")),
        "anthropic": partial(_patch_clients, "anthropic", ("Anthropic", "AsyncAnthropic")),
        "google-genai": _patch_gemini,
        "litellm": _add_callback,
    }
    for name in names or MODULES:
        if name not in MODULES:
            log.error("Runtally can instrument %s, not %r", ", ".join(MODULES), name)
        elif name not in _undo:
            _undo[name] = []
            when_imported(MODULES[name], partial(patches[name], begin=begin, stream_usage=stream_usage))


def uninstrument(names: tuple[str, ...]) -> None:
    """Undo `instrument`, for these SDKs or all."""
    for name in names or tuple(_undo):
        forget(MODULES.get(name, name))
        for undo in reversed(_undo.pop(name, [])):
            undo()


def warn_of_opentelemetry(host: str) -> None:
    """Warn where spans of the same calls already go to the same server, which would count each call twice."""
    api = sys.modules.get("opentelemetry.trace")
    provider = getattr(api, "get_tracer_provider", lambda: None)()
    processors = getattr(getattr(provider, "_active_span_processor", None), "_span_processors", ())
    endpoints = [str(getattr(getattr(each, "span_exporter", None), "_endpoint", "")) for each in processors]
    if any(f"//{host}/" in f"{endpoint}/" for endpoint in endpoints):
        log.warning("OpenTelemetry already sends spans to %s: without one of the two, calls may count twice", host)


def _replace(sdk: str, owner: Any, name: str, replacement: Any) -> None:
    original = vars(owner)[name]
    setattr(owner, name, replacement)
    _undo.setdefault(sdk, []).append(lambda: setattr(owner, name, original))


def _patch_clients(sdk: str, clients: tuple[str, ...], module: Any, *, begin: Begin, stream_usage: bool) -> None:
    for client in clients:
        # Where it is defined: those of Azure, Bedrock and Vertex derive from the same.
        owner = next(each for each in getattr(module, client).__mro__ if "request" in vars(each))
        _replace(sdk, owner, "request", record_requests(owner.request, sdk, begin, stream_usage=stream_usage))


def _patch_gemini(genai: Any, *, begin: Begin, **_: object) -> None:
    # The public functions may call the model several times, for its tools: these call it once.
    names = ("_generate_content", "_generate_content_stream", "embed_content")
    for owner in (genai.models.Models, genai.models.AsyncModels):
        for name in names:
            _replace(
                "google-genai", owner, name, recorded(getattr(owner, name), partial(_watch_gemini, begin), _observed)
            )


def _watch_gemini(begin: Begin, *_: Any, **kwargs: Any) -> AbstractContextManager[Call | None]:
    return watched(begin, "google", str(kwargs.get("model", "")).rpartition("/")[2])


def _observed(answer: Any, reading: Reading) -> Any:
    if hasattr(answer, "__anext__"):
        return aread_along(answer, reading)
    if hasattr(answer, "__next__"):
        return read_along(answer, reading)
    reading.see(answer)
    reading.end()
    return answer


def _add_callback(litellm: Any, *, begin: Begin, **_: object) -> None:
    from runtally_client.litellm import Callback  # It imports LiteLLM.

    callback = Callback(begin)
    litellm.callbacks.append(callback)
    _undo.setdefault("litellm", []).append(lambda: litellm.callbacks.remove(callback))
