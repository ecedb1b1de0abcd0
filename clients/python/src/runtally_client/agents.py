"""A processor for the OpenAI Agents SDK: `agents.add_trace_processor(runtally.agents_processor())`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agents.tracing import TracingProcessor

from runtally_client._answers import Reading

if TYPE_CHECKING:
    from runtally_client._call import Begin, Call

_MAX_BEGUN = 10_000


class Processor(TracingProcessor):  # type: ignore[misc]  # The SDK is not there when types are checked.
    """Records the spans that are calls of a model, in the trace of their agent."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._begun: dict[str, Call] = {}

    def on_span_start(self, span: Any) -> None:
        with suppress(Exception):
            if span.span_data.type in ("generation", "response") and len(self._begun) < _MAX_BEGUN:
                call = self._begun[span.span_id] = self._begin(None, None)
                call.update(traceId=call.field("traceId") or span.trace_id)
                call.enter()

    def on_span_end(self, span: Any) -> None:
        call = self._begun.pop(span.span_id, None)
        if call is None:
            return
        call.leave()
        with suppress(Exception):
            data = span.span_data
            call.fill(None, getattr(data, "model", None))
            reading = Reading(call)
            reading.see(getattr(data, "response", None))
            for told in (getattr(data, "response", None), data):
                call.usage(getattr(told, "usage", None))
            call.fill("openai", None)
        # Some versions do not say in the span that the request failed.
        has_failed = span.error or (call.inner_error and call.field("inputTokens") is None)
        call.end(error_code="error" if has_failed else None)

    def on_trace_start(self, trace: object) -> None: ...

    def on_trace_end(self, trace: object) -> None: ...

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...
