"""Instrumentations that are known to leave something out, by the name of their scope, and which of them were seen."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from runtally.db.database import Connection

MAX_SENDERS = 100
"""The most projects that are asked for what records their runs, the last to send first."""
LATEST = 300
"""The latest runs of a project that are looked at."""


class Gap(NamedTuple):
    """What an instrumentation leaves out of the calls that it records, and what to do about it."""

    version: str
    """The newest version that is known for it."""
    lacks: str
    remedy: str

    def told_of(self, scope: str) -> str:
        """Say it of the scope, in a sentence."""
        return f"{scope} {self.lacks} (as of version {self.version}); {self.remedy}"


_CLIENT = "record OpenAI's client by Runtally's own package for JavaScript instead"
_SDK = "add the instrumentation of the SDK that it calls"
_OF_VERTEX = "call google-genai, and add openinference-instrumentation-google-genai instead"
_OF_BEDROCK = "call Converse, or add opentelemetry-instrumentation-genai-bedrock instead"
# The sums of an agent have no scope, and are known by the agent's name.
GAPS: Mapping[str, Gap] = {
    "openinference.instrumentation.dspy": Gap(
        "0.1.48",
        "sends no tokens at all",
        'add the instrumentation of LiteLLM, and engine="litellm" to each dspy.LM, which calls vendors past it, as of 3.4.1',
    ),
    "openinference.instrumentation.haystack": Gap(
        "0.1.46",
        "sends no cached tokens, and no tokens of embeddings",
        "add the instrumentation of the SDK that it calls",
    ),
    "opentelemetry.instrumentation.anthropic": Gap(
        "0.62.4",
        "adds up to 8 output tokens to a stream",
        "leave it out, since Anthropic's SDK traces by itself from 1.17.0 on",
    ),
    "@traceloop/instrumentation-anthropic": Gap(
        "0.27.0",
        "sends no tokens of streams",
        "leave it out, since Anthropic's SDK traces by itself from 0.137.0 on",
    ),
    "@arizeai/openinference-instrumentation-openai": Gap(
        "4.2.7",
        "sends no tokens of streams of chat, and nothing of refused calls",
        _CLIENT,
    ),
    "@traceloop/instrumentation-openai": Gap(
        "0.27.0",
        "sends no cached tokens, none at all of streams, and nothing of refused calls",
        _CLIENT,
    ),
    "@traceloop/instrumentation-langchain": Gap(
        "0.27.0",
        "sends no cached tokens, no tokens of OpenAI's Responses, and nothing of Gemini",
        "use @arizeai/openinference-instrumentation-langchain instead",
    ),
    "openinference.instrumentation.beeai": Gap(
        "0.1.30",
        "sends nothing of refused calls and embeddings",
        "add openinference-instrumentation-litellm, since BeeAI calls LiteLLM",
    ),
    "openinference.instrumentation.smolagents": Gap("0.1.43", "sends no cached tokens", _SDK),
    "openinference.instrumentation.autogen_agentchat": Gap("0.1.22", "sends no cached tokens", _SDK),
    "semantic_kernel.utils.telemetry.model_diagnostics.decorators": Gap("1.45.0", "sends no cached tokens", _SDK),
    "opentelemetry.instrumentation.openai_agents": Gap("0.62.4", "sends no tokens of Chat Completions", _SDK),
    "openinference.instrumentation.openai_agents": Gap("2.6.0", "sends no cached tokens of Chat Completions", _SDK),
    "opentelemetry.instrumentation.vertexai": Gap("0.62.4", "sends nothing of refused calls", _OF_VERTEX),
    "openinference.instrumentation.vertexai": Gap("0.1.29", "sends no cached tokens", _OF_VERTEX),
    "@opentelemetry/instrumentation-openai": Gap("0.22.0", "sends no cached tokens", _CLIENT),
    "opentelemetry.instrumentation.bedrock": Gap("0.62.4", "sends no cached tokens of InvokeModel", _OF_BEDROCK),
    "openinference.instrumentation.bedrock": Gap(
        "0.1.61", "sends no cached tokens of InvokeModel's streams", _OF_BEDROCK
    ),
    "continue-cli": Gap(
        "1.5.47",
        "sends no cached tokens of OpenAI's models, which makes them look several times as expensive",
        "point it at a proxy that sends its calls, such as LiteLLM",
    ),
}

SELECT_SCOPES = """
  SELECT DISTINCT senders.project_id, latest.scope
    FROM (SELECT project_id
            FROM otlp_clients
           WHERE runs > 0
             AND last_at >= $1
        GROUP BY project_id
        ORDER BY max(last_at) DESC
           LIMIT $2) AS senders,
 LATERAL (SELECT coalesce(metadata ->> 'instrumentation', metadata ->> 'agent') AS scope
            FROM runs
           WHERE runs.project_id = senders.project_id
             AND occurred_at >= $1
        ORDER BY occurred_at DESC
           LIMIT $3) AS latest
   WHERE latest.scope = ANY ($4)
ORDER BY 1, 2
"""


async def select_gaps(connection: Connection, since: datetime) -> tuple[tuple[str, str], ...]:
    """Read which projects lack something by the instrumentation of their latest runs: each with what, in a sentence."""
    rows = await connection.fetch(SELECT_SCOPES, since, MAX_SENDERS, LATEST, list(GAPS))
    return tuple((project_id, GAPS[scope].told_of(scope)) for project_id, scope in rows)
