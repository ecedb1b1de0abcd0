"""LangChain's callback handler: `model.invoke(..., config={"callbacks": [runtally.langchain_handler()]})`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import BaseCallbackHandler

if TYPE_CHECKING:
    from uuid import UUID

    from runtally_client._call import Begin, Call

_PROVIDERS = {"google_genai": "google", "google_vertexai": "google", "amazon_bedrock": "aws", "mistralai": "mistral"}
_MAX_BEGUN = 10_000


class Handler(BaseCallbackHandler):  # type: ignore[misc]  # LangChain is not there when types are checked.
    """Records each call of a model."""

    run_inline = True  # In the caller's own context, which says who the user is and whose call it is.

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._begun: dict[UUID, Call] = {}

    def on_chat_model_start(
        self,
        serialized: object,  # noqa: ARG002
        messages: object,  # noqa: ARG002
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        about, given = metadata or {}, kwargs.get("invocation_params") or {}
        provider = about.get("ls_provider") or given.get("_type")
        model = about.get("ls_model_name") or given.get("model") or given.get("model_name")
        call = self._begin(_PROVIDERS.get(provider or "", provider), model)
        if len(self._begun) < _MAX_BEGUN:
            self._begun[run_id] = call
            call.enter()

    on_llm_start = on_chat_model_start

    def on_llm_new_token(self, *_: object, run_id: UUID, **__: object) -> None:
        if run_id in self._begun:
            self._begun[run_id].first_token()

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: object) -> None:
        call = self._begun.pop(run_id, None)
        if call:
            call.leave()
            told = (getattr(response, "llm_output", None) or {}).get("token_usage")
            for generation in (each for several in response.generations for each in several[:1]):
                message = getattr(generation, "message", None)
                told = getattr(message, "usage_metadata", None) or told
                about = getattr(message, "response_metadata", None) or {}
                call.update(finishReason=about.get("finish_reason") or about.get("stop_reason"))
                if about.get("model_name"):
                    call.answered_by(about["model_name"])
            call.usage(told)
            call.end()

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: object) -> None:
        call = self._begun.pop(run_id, None)
        if call:
            call.leave()
            call.end(error)
