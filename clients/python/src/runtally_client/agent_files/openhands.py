"""OpenHands: the usage, the cost and the latency of each call stand in three lists of the same order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

NAME = "openhands"
_LONGEST_SECONDS = 1e6


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield the calls of all conversations."""
    for path in reading.files(home.folder(".openhands") / "conversations", "base_state.json", notes):
        state = reading.document(path, notes)
        session = text(state, "id") or path.parent.name
        for purpose, metrics in part(state, "stats", "usage_to_metrics").items():
            usages, costs, latencies = (
                _list(metrics, name) for name in ("token_usages", "costs", "response_latencies")
            )
            if usages:
                notes.cannot_know("OpenHands keeps no failed calls")
            for place, usage in enumerate(usages):
                cost = costs[place] if place < len(costs) else {}
                latency = latencies[place].get("latency") if place < len(latencies) else None
                ended, name = reading.seconds(cost.get("timestamp")), text(usage, "model")
                if ended is None or not name:
                    notes.leave_out("a call of OpenHands has no time or no model")
                    continue
                took = latency if isinstance(latency, (int, float)) and 0 <= latency < _LONGEST_SECONDS else None
                # LiteLLM's names begin with the provider.
                provider, slash, model = name.partition("/")
                model = model if slash else name
                tokens = {
                    "inputTokens": count(usage, "prompt_tokens"),
                    "cachedInputTokens": count(usage, "cache_read_tokens"),
                    "cacheWriteTokens": count(usage, "cache_write_tokens"),
                    "outputTokens": count(usage, "completion_tokens"),
                    "reasoningTokens": count(usage, "reasoning_tokens"),
                }
                answer = text(usage, "response_id")
                yield reading.call(
                    NAME,
                    # Its span has the same; some servers give an id again and again.
                    (session, answer, tokens["inputTokens"], tokens["outputTokens"])
                    if answer
                    else (session, f"{purpose} {place}"),
                    ended - (took or 0),
                    model,
                    provider if slash else reading.provider_of(None, model),
                    latency=None if took is None else took * 1000,
                    session=session,
                    metadata={
                        "querySource": None if purpose == "agent" else purpose[:64],
                        "reportedCostUSD": cost.get("cost") or None,
                    },
                    tokens=tokens,
                )


def _list(metrics: Any, name: str) -> list[dict[str, Any]]:
    found = metrics.get(name) if isinstance(metrics, dict) else None
    return [one if isinstance(one, dict) else {} for one in found] if isinstance(found, list) else []
