"""LiteLLM's callback, for the library and, as an instance that its settings name, for the proxy."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from litellm import get_llm_provider
from litellm.integrations.custom_logger import CustomLogger

from runtally_client._call import Begin, Begun, provider_name


class Callback(CustomLogger):  # type: ignore[misc]  # LiteLLM is not there when types are checked.
    """Records each call when LiteLLM says that it is over."""

    def __init__(self, begin: Begin) -> None:
        super().__init__()
        self._begin, self._begun = begin, Begun()

    def log_pre_api_call(self, model: str, messages: object, kwargs: dict[str, Any]) -> None:  # noqa: ARG002
        # Here is the caller's context; what follows may be called from a thread of LiteLLM's.
        with suppress(Exception):
            self._begun[kwargs["litellm_call_id"]] = self._begin(None, None)

    def log_success_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        with suppress(Exception):
            self._end(kwargs, start_time, end_time, response_obj)

    def log_failure_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:  # noqa: ARG002
        with suppress(Exception):
            error = kwargs.get("exception")
            self._end(kwargs, start_time, end_time, error=error if isinstance(error, BaseException) else Exception())

    async def async_log_success_event(self, *args: Any, **kwargs: Any) -> None:
        self.log_success_event(*args, **kwargs)

    async def async_log_failure_event(self, *args: Any, **kwargs: Any) -> None:
        self.log_failure_event(*args, **kwargs)

    def _end(self, kwargs: dict[str, Any], began: Any, ended: Any, answer: Any = None, error: Any = None) -> None:
        about, params = kwargs.get("standard_logging_object") or {}, kwargs.get("litellm_params") or {}
        call_id, model = kwargs["litellm_call_id"], str(kwargs.get("model") or "unknown")
        names = (each.get("custom_llm_provider") for each in (kwargs, params, about))
        provider = next(filter(None, names), None) or _provider(model)
        first, is_hit = kwargs.get("stream") and kwargs.get("completion_start_time"), bool(kwargs.get("cache_hit"))
        labels = {"group": about.get("model_group"), "cacheHit": is_hit}
        call = self._begun.pop(call_id, None) or self._begin(None, None)
        call.update(
            provider=provider_name(provider),
            # A retry has the id of the call that failed.
            runId=f"{call_id}-{began.timestamp():.3f}" if error else call_id,
            timestamp=began.astimezone().isoformat(),
            latencyMs=_milliseconds(began, ended),
            timeToFirstTokenMs=_milliseconds(began, first) if first else None,
            costUSD=(not is_hit and kwargs.get("response_cost")) or None,
            userId=about.get("end_user") or kwargs.get("user") or None,
            tags=about.get("request_tags"),
            metadata={name: value for name, value in labels.items() if value},
        )
        call.fill(model=model[len(provider) + 1 :] if provider and model.startswith(f"{provider}/") else model)
        if is_hit:  # What LiteLLM has in its own cache uses no tokens, and costs nothing.
            call.update(inputTokens=0, outputTokens=0)
        else:
            call.see(answer)
        call.end(error)


def _provider(model: str) -> Any:
    with suppress(Exception):  # Of a cache hit, some versions do not tell.
        return get_llm_provider(model)[1]


def _milliseconds(began: Any, ended: Any) -> Any:
    return round((ended - began).total_seconds() * 1000)
