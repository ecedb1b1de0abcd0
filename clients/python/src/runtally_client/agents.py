"""A processor for the OpenAI Agents SDK: `agents.add_trace_processor(runtally.agents_processor())`."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from agents.tracing import TracingProcessor

from runtally_client._call import Begin, Begun


class Processor(TracingProcessor):  # type: ignore[misc]  # The SDK is not there when types are checked.
    """Records the spans that are calls of a model, in the trace of their agent."""

    def __init__(self, begin: Begin) -> None:
        self._begin, self._begun = begin, Begun()

    def on_span_start(self, span: Any) -> None:
        with suppress(Exception):
            if span.span_data.type in ("generation", "response"):
                call = self._begun[span.span_id] = self._begin(None, None).enter()
                call.fill(traceId=span.trace_id)

    def on_span_end(self, span: Any) -> None:
        call = self._begun.pop(span.span_id, None)
        if call:
            call.leave()
            call.fill(provider="openai", model=getattr(span.span_data, "model", None))
            call.usage(getattr(span.span_data, "usage", None))
            call.see(span.span_data)
            # Some versions do not say in the span that the request failed.
            has_failed = span.error or (call.inner_error and call.fields.get("inputTokens") is None)
            call.end(error_code=(call.inner_error or "error") if has_failed else None)

    def _ignore(self, *_: object) -> None: ...

    on_trace_start = on_trace_end = shutdown = force_flush = _ignore
