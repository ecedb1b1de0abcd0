"""The SDKs that can be instrumented: which of their functions call a model, and what such a call says of provider and model.

An SDK that the program has not imported yet is instrumented when it is, and none is imported for it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice
from traceback import walk_stack
from typing import Any, Callable

from runtally_client._answers import observed
from runtally_client._call import Begin, Call, inside, outer_call, provider_name, watched
from runtally_client._turns import patch_live, patch_realtime, patch_voice
from runtally_client._usage import first

log = logging.getLogger("runtally")
Undo = Callable[[], None]

_CALLS = (
    "/chat/completions", "/completions", "/responses", "/responses/compact", "/decisions", "/embeddings", "/v1/messages", "/v1/complete",
    "/images/generations", "/images/edits", "/images/variations",
    "/audio/transcriptions", "/audio/translations", "/audio/speech",
)  # fmt: skip
# Whose server it is, by the name before the last dot of its host, or by a part of the client's class.
_HOSTS = frozenset((
    "avian", "aws", "azure", "baseten", "cerebras", "cloudflare", "cohere", "databricks", "deepinfra", "deepseek", "fireworks", "google",
    "groq", "huggingface", "minimax", "mistral", "moonshotai", "nebius", "novita", "nvidia", "openrouter", "ovhcloud", "perplexity",
    "sambanova", "together", "voyageai", "x-ai", "zai", "zhipuai",
))  # fmt: skip
_CLASSES = {"Azure": "azure", "Bedrock": "aws", "Vertex": "google"}
_FRAMEWORKS = ("runtally_client.litellm", "runtally_client.langchain")
_MAX_FRAMES = 100
_GEMINI_TIERS = ("flex", "priority")


def instrument(names: Sequence[str], begin: Begin, *, stream_usage: bool, providers: Mapping[str, str]) -> None:
    """Instrument these SDKs, or all that are known, now or as soon as the program imports them. Twice is once."""
    _named.update(providers)
    for name in names or SDKS:
        if name not in SDKS:
            log.error("Runtally can instrument %s, not %r", ", ".join(SDKS), name)
        elif name not in _undo:
            _undo[name] = []
            for module, patch in SDKS[name].items():
                _awaited[module] = partial(_instrument, name, partial(patch, begin, stream_usage))
                if module in sys.modules:
                    _awaited.pop(module)(sys.modules[module])
                elif _Finder not in sys.meta_path:
                    sys.meta_path.insert(0, _Finder)


def uninstrument(names: Sequence[str]) -> None:
    """Undo `instrument`, for these SDKs or all."""
    for name in names or tuple(_undo):
        for module in SDKS.get(name, ()):
            _awaited.pop(module, None)
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


# When it is done --------------------------------------------------------------------------------------------------------------

_undo: dict[str, list[Undo]] = {}
_named: dict[str, str] = {}  # What the program says of addresses.
_awaited: dict[str, Callable[[Any], None]] = {}


def _instrument(name: str, patch: Callable[[Any], Iterator[Undo]], module: Any) -> None:
    try:
        _undo[name].extend(patch(module))
    except Exception as error:  # noqa: BLE001  # A version that is built otherwise: the program goes on without.
        log.warning("Runtally could not instrument %s: %s", name, error)


class _Finder:
    """Finds what the other finders find, and has the loader say when it is done: many look for a module and do not import it."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        if name not in _awaited:
            return None
        others = (each.find_spec for each in sys.meta_path if each is not _Finder and hasattr(each, "find_spec"))
        spec: Any = next(filter(None, (find(name, path, target) for find in others)), None)
        load: Any = getattr(spec and spec.loader, "exec_module", None)

        def exec_module(module: Any) -> None:
            load(module)
            _awaited.pop(name, lambda _: None)(module)

        if load:
            spec.loader.exec_module = exec_module  # Of this import alone.
        return spec


# What is done -----------------------------------------------------------------------------------------------------------------


def _replace(owner: Any, name: str, watch: Callable[..., AbstractContextManager[Call | None]]) -> Undo:
    function = vars(owner)[name]
    setattr(owner, name, inside(watch, function, observed))
    return partial(setattr, owner, name, function)


def _patch_clients(sdk: str, clients: Iterable[str], begin: Begin, stream_usage: bool, module: Any) -> Iterator[Undo]:
    """OpenAI's and Anthropic's: one generator makes both, and each call passes through one method of their clients.

    So a call is one run with all its retries, whether it was `create`, `parse` or `stream`, raw or not.
    """

    def begin_again(provider: str | None, model: str | None) -> Call:
        call = begin(provider, model)
        call.is_retrieved = True
        return call

    def watch(client: Any, _cast_to: Any, options: Any, **_: Any) -> AbstractContextManager[Call | None]:
        if is_retrieval(options):
            return watched(begin_again, provider_of(client, sdk), None)
        if not _is_call(options):
            return nullcontext()
        body = options.json_data
        if stream_usage and options.url.endswith("/chat/completions") and body.get("stream"):
            options.json_data = {"stream_options": {"include_usage": True}, **body}
        # What is spoken is charged by its letters, which the answer does not tell.
        spoken = body.get("input") if options.url.endswith("/audio/speech") else None
        units = {"characters": len(spoken)} if isinstance(spoken, str) else None
        # OpenAI's decisions have a price of their own.
        own = "-decisions" if options.url.endswith("/decisions") else ""
        return watched(begin, provider_of(client, sdk) + own, body.get("model"), units=units)

    for client in clients:
        # Where it is defined: those of Azure, Bedrock and Vertex derive from the same.
        owner = next(each for each in getattr(module, client).__mro__ if "request" in vars(each))
        yield _replace(owner, "request", watch)


def is_retrieval(options: Any) -> bool:
    """Look whether an answer is asked for that was perhaps made in the background, which is known only then."""
    path = str(getattr(options, "url", "")).partition("?")[0]
    is_get = str(getattr(options, "method", "")).lower() == "get"
    return is_get and path.startswith("/responses/") and path.count("/") == 2 and not outer_call()


def _is_call(options: Any) -> bool:
    try:
        is_call = options.method.lower() == "post" and options.url.partition("?")[0].endswith(_CALLS)
    except AttributeError:
        return False
    return is_call and isinstance(options.json_data, dict) and bool(outer_call() or not _is_recorded_by_framework())


def _is_recorded_by_framework() -> bool:
    """Look whether LiteLLM or LangChain makes the call for a program that has their callback, which records it itself."""
    if not sys.modules.keys() & set(_FRAMEWORKS):
        return False
    for frame, _line in islice(walk_stack(None), _MAX_FRAMES):
        name: str = frame.f_globals.get("__name__", "")
        handlers: Any = ()
        if name.startswith("litellm."):
            handlers = sys.modules["litellm"].callbacks
        elif name.startswith("langchain_core.language_models."):
            handlers = getattr(frame.f_locals.get("run_manager"), "handlers", ())
        if any(type(each).__module__ in _FRAMEWORKS for each in handlers):
            return True
    return False


def provider_of(client: Any, sdk: str) -> str:
    """Return whose server a client calls, by its address or its class; where neither says so, whose SDK it is."""
    names = " ".join(each.__name__ for each in type(client).__mro__)
    url = getattr(client, "base_url", None)
    host = str(getattr(url, "host", ""))
    if named := _named.get(f"{host}:{getattr(url, 'port', None)}") or _named.get(host):
        return named
    labels = host.split(".")
    # A gateway passes on what its vendor charges.
    owner = provider_name(labels[-2]) if len(labels) > 1 and labels[0] != "gateway" else None
    by_host = owner if owner in _HOSTS else sdk
    return next((name for part, name in _CLASSES.items() if part in names), by_host)


def _patch_gemini(begin: Begin, _stream_usage: bool, genai: Any) -> Iterator[Undo]:
    def watch(*_: Any, **kwargs: Any) -> AbstractContextManager[Call | None]:
        # The SDK leaves the tier that the answer names out of it.
        asked = first(kwargs.get("config"), "service_tier", "serviceTier")
        tier = str(getattr(asked, "value", asked)).lower()
        model = str(kwargs.get("model", "")).rpartition("/")[2]
        return watched(begin, "google", model, serviceTier=tier if tier in _GEMINI_TIERS else None)

    for owner in (genai.models.Models, genai.models.AsyncModels):
        # The public functions may call the model several times, for its tools: these call it once.
        for name in (
            "_generate_content",
            "_generate_content_stream",
            "embed_content",
            "_generate_images",
            "_edit_image",
        ):
            if name in vars(owner):
                yield _replace(owner, name, watch)


def _patch_interactions(begin: Begin, _stream_usage: bool, module: Any) -> Iterator[Undo]:
    def watch(*_: Any, **kwargs: Any) -> AbstractContextManager[Call | None]:
        asked = [each for each in (kwargs.get("request"), kwargs.get("body"), kwargs) if each]
        model = next(filter(None, (first(each, "model", "agent") for each in asked)), "")
        return watched(begin, "google", str(model).rpartition("/")[2])

    for owner in (module.Interactions, module.AsyncInteractions):
        yield _replace(owner, "create", watch)


def _add_callback(begin: Begin, _stream_usage: bool, litellm: Any) -> Iterator[Undo]:
    from runtally_client.litellm import Callback  # It imports LiteLLM.

    callback = Callback(begin)
    litellm.callbacks.append(callback)
    yield partial(litellm.callbacks.remove, callback)


SDKS: dict[str, dict[str, Callable[..., Iterator[Undo]]]] = {
    "openai": {
        "openai": partial(_patch_clients, "openai", ("OpenAI", "AsyncOpenAI")),
        "openai.resources.realtime.realtime": patch_realtime,
        "openai.resources.live.live": patch_realtime,
        "agents.realtime.openai_realtime": patch_voice,
    },
    "anthropic": {"anthropic": partial(_patch_clients, "anthropic", ("Anthropic", "AsyncAnthropic"))},
    "google-genai": {
        "google.genai": _patch_gemini,
        "google.genai._gaos.interactions": _patch_interactions,
        "google.genai.live": patch_live,
    },
    "litellm": {"litellm": _add_callback},
}
