"""LangChain's callback handler: `model.invoke(..., config={"callbacks": [runtally.langchain_handler()]})`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from runtally_client._call import Begin, Begun, provider_name


class Handler(BaseCallbackHandler):  # type: ignore[misc]  # LangChain is not there when types are checked.
    """Records each call of a model."""

    run_inline = True  # In the caller's own context, which says who the user is.

    def __init__(self, begin: Begin) -> None:
        self._begin, self._begun = begin, Begun()

    def on_chat_model_start(self, *_: object, run_id: UUID, metadata: Any = None, **kwargs: Any) -> None:
        about, given = metadata or {}, kwargs.get("invocation_params") or {}
        model = about.get("ls_model_name") or given.get("model") or given.get("model_name")
        self._begun[run_id] = self._begin(provider_name(about.get("ls_provider") or given.get("_type")), model)

    on_llm_start = on_chat_model_start

    def on_llm_new_token(self, *_: object, run_id: UUID, **__: object) -> None:
        if run_id in self._begun:
            self._begun[run_id].first_token()

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: object) -> None:
        call = self._begun.pop(run_id, None)
        if call:
            call.usage((getattr(response, "llm_output", None) or {}).get("token_usage"))
            for generation in (each for several in response.generations for each in several[:1]):
                message = getattr(generation, "message", None)
                about = getattr(message, "response_metadata", None) or {}
                reason = about.get("finish_reason") or about.get("stop_reason")
                if (getattr(message, "usage_metadata", None) or {}).get("total_cost") == 0:
                    # LangChain's mark of its own cache: the counts are those of the call that filled it.
                    call.update(inputTokens=0, outputTokens=0, metadata={"cacheHit": True})
                else:
                    call.see(generation)
                call.see({"model": about.get("model_name"), "stop_reason": reason})
            call.end()

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        call = self._begun.pop(run_id, None)
        if call:
            call.end(error)
