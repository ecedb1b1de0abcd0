"""The known coding agents, and the one signal that is read from each, since most report a call in several.

An agent is recognised by its service, or by the scope or the names of its events where a user may rename the service.
"""

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from runtally.otlp.values import Attributes


class Signal(StrEnum):
    """The signal that an agent's calls are read from."""

    LOGS = "logs"
    TRACES = "traces"
    METRICS = "metrics"
    """Sums in place of calls, which a project has to ask for."""
    NONE = "none"


class Agent(NamedTuple):
    """An agent: how it is recognised, and where its calls are read."""

    name: str
    signal: Signal
    services: tuple[str, ...]
    """Beginnings of its service's name that end at the name's end or at a `_`."""
    scopes: tuple[str, ...] = ()
    """Beginnings of the names of its scopes."""
    events: str = ""
    """The first part of the names of its events."""
    prefers_response_model: bool = False
    """Whether the model that answered is the run's; the requested one is a choice by the agent's service."""
    sends_version: bool = True
    """Whether `service.version` is its own version."""


CLAUDE = Agent("claude-code", Signal.LOGS, ("claude-code",), ("com.anthropic.claude_code",))
CODEX = Agent("codex", Signal.LOGS, ("codex",), ("codex_otel",), "codex")
# Its `service.version` is Node's.
GEMINI = Agent("gemini-cli", Signal.LOGS, ("gemini-cli",), ("gemini-cli",), "gemini_cli", sends_version=False)
QWEN = Agent("qwen-code", Signal.LOGS, ("qwen-code",), ("qwen-code",), "qwen-code")
CLINE = Agent("cline", Signal.LOGS, ("cline",))
COPILOT = Agent("github-copilot", Signal.TRACES, ("github-copilot",), ("github.copilot",), prefers_response_model=True)
COPILOT_CHAT = Agent("copilot-chat", Signal.TRACES, ("copilot-chat",), prefers_response_model=True)
OPENCODE = Agent("opencode", Signal.TRACES, ("opencode",), ("opencode",), prefers_response_model=True)
AGENTS = (
    CLAUDE, CODEX, GEMINI, QWEN, CLINE, COPILOT, COPILOT_CHAT, OPENCODE,
    Agent("goose", Signal.TRACES, ("goose",)),
    Agent("continue-cli", Signal.METRICS, ("continue-cli",), ("continue-cli",)),
    # The format of its request records is unknown.
    Agent("cursor", Signal.NONE, ("cursor",), ("cursor.telemetry",)),
)  # fmt: skip


def find_agent(resource: Attributes, scope: str, event_name: str = "") -> Agent | None:
    """Return the agent that recorded something; None if it is not a known one."""
    service = resource.get("service.name")
    # Only the first part of an event's name is compared, and there are few of them.
    return _find(service if isinstance(service, str) else "", scope, event_name.partition(".")[0])


@lru_cache(1024)
def _find(service: str, scope: str, event: str) -> Agent | None:
    name = service.strip().casefold()
    for agent in AGENTS:
        if any(name == known or name.startswith(f"{known}_") for known in agent.services):
            return agent
    for agent in AGENTS:
        if scope.startswith(agent.scopes) and agent.scopes:
            return agent
        if agent.events and event == agent.events:
            return agent
    return None
