"""Qwen Code: each call stands three times; the line of `ui_telemetry` has its duration and first token, so that one is read."""

from __future__ import annotations

from collections.abc import Iterator

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

NAME = "qwen-code"
_ANSWER, _ERROR = "qwen-code.api_response", "qwen-code.api_error"


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield the calls of all chats."""
    seen: set[str] = set()
    for path in reading.files(home.folder(".qwen") / "projects", "*.jsonl", notes):
        for line in reading.lines(path, notes, b'"ui_telemetry"'):
            event = part(line, "systemPayload", "uiEvent")
            name = event.get("event.name")
            if name not in (_ANSWER, _ERROR):
                continue
            ended, model = reading.seconds(event.get("event.timestamp") or line.get("timestamp")), text(event, "model")
            if ended is None or not model:
                notes.leave_out("a call of Qwen Code has no time or no model")
                continue
            notes.cannot_know("Qwen Code keeps no attempts that were answered with an error and tried again")
            duration = count(event, "duration_ms") if "duration_ms" in event else None
            session = text(line, "sessionId")
            failed = text(event, "status_code", "error_type") or str(event.get("status_code") or "unknown")
            tokens = {
                "inputTokens": count(event, "input_token_count"),
                "cachedInputTokens": count(event, "cached_content_token_count"),
                "outputTokens": count(event, "output_token_count"),
                "reasoningTokens": count(event, "thoughts_token_count"),
            }
            answer = text(event, "response_id")
            run = reading.call(
                NAME,
                # Its record in OpenTelemetry has the same; some servers give an id again and again.
                (session, answer, tokens["inputTokens"], tokens["outputTokens"])
                if answer
                else (session, line.get("uuid")),
                ended - (duration or 0) / 1000,
                model,
                reading.provider_of(None, model),
                error=failed if name == _ERROR else None,
                latency=duration,
                first_token=count(event, "ttft_ms") if "ttft_ms" in event else None,
                session=session,
                metadata={
                    "agentVersion": text(line, "version"),
                    "repo": reading.repository(line.get("cwd")),
                    "authType": text(event, "auth_type"),
                },
                tokens=tokens,
            )
            if run["runId"] not in seen:
                seen.add(run["runId"])
                yield run
