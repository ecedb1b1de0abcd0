"""LiteLLM's callback, for the library and, as an instance that its settings name, for the proxy."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from litellm import get_llm_provider
from litellm.integrations.custom_logger import CustomLogger

from runtally_client._answers import Reading

if TYPE_CHECKING:
    from runtally_client._call import Begin, Call

_PROVIDERS = {
    "azure_ai": "azure",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "moonshot": "moonshotai",
    "text-completion-openai": "openai",
    "together_ai": "together",
    "vertex_ai": "google",
    "xai": "x-ai",
}
_MAX_BEGUN = 10_000


class Callback(CustomLogger):  # type: ignore[misc]  # LiteLLM is not there when types are checked.
    """Records each call when LiteLLM says that it is over."""

    def __init__(self, begin: Begin) -> None:
        super().__init__()
        self._begin = begin
        self._begun: dict[str, Call] = {}

    def log_pre_api_call(self, model: str, messages: object, kwargs: dict[str, Any]) -> None:  # noqa: ARG002
        # Here is the caller's context; what follows may be called from a thread of LiteLLM's.
        with suppress(Exception):
            if len(self._begun) >= _MAX_BEGUN:  # Calls of which LiteLLM never said that they are over.
                self._begun.pop(next(iter(self._begun)))
            self._begun[kwargs["litellm_call_id"]] = self._begin(None, None)

    def log_success_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        with suppress(Exception):
            self._end(kwargs, response_obj, start_time, end_time)

    def log_failure_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:  # noqa: ARG002
        with suppress(Exception):
            error = kwargs.get("exception")
            self._end(kwargs, None, start_time, end_time, error if isinstance(error, BaseException) else Exception())

    async def async_log_success_event(self, *args: Any, **kwargs: Any) -> None:
        self.log_success_event(*args, **kwargs)

    async def async_log_failure_event(self, *args: Any, **kwargs: Any) -> None:
        self.log_failure_event(*args, **kwargs)

    def _end(
        self,
        kwargs: dict[str, Any],
        answer: Any,
        began: Any,
        ended: Any,
        error: BaseException | None = None,
    ) -> None:
        about = kwargs.get("standard_logging_object") or {}
        given = kwargs.get("litellm_params") or {}
        call_id = kwargs["litellm_call_id"]
        call = self._begun.pop(call_id, None) or self._begin(None, None)
        provider = (
            kwargs.get("custom_llm_provider") or given.get("custom_llm_provider") or about.get("custom_llm_provider")
        )
        model = str(kwargs.get("model") or "unknown")
        if not provider:  # Of a cache hit, some versions do not tell.
            with suppress(Exception):
                provider = get_llm_provider(model)[1]
        is_hit = bool(kwargs.get("cache_hit"))
        call.update(
            provider=_PROVIDERS.get(provider or "", provider),
            # A retry has the id of the call that failed.
            runId=f"{call_id}-{began.timestamp():.3f}" if error else call_id,
            timestamp=began.astimezone().isoformat(),
            latencyMs=round((ended - began).total_seconds() * 1000),
            costUSD=kwargs.get("response_cost") or None,
            userId=about.get("end_user") or kwargs.get("user") or None,
            tags=about.get("request_tags"),
            metadata={
                name: value for name, value in (("group", about.get("model_group")), ("cacheHit", is_hit)) if value
            },
        )
        call.fill(None, model[len(provider) + 1 :] if provider and model.startswith(f"{provider}/") else model)
        first = kwargs.get("completion_start_time")
        if first and kwargs.get("stream"):
            call.update(timeToFirstTokenMs=round((first - began).total_seconds() * 1000))
        reading = Reading(call)
        if is_hit:  # What LiteLLM has in its own cache uses no tokens, and costs nothing.
            call.update(inputTokens=0, outputTokens=0, costUSD=None)
        elif answer is not None:
            reading.see(answer)
        reading.end(error)
