"""Read spans of coding agents: find those that are calls, and add the agent's metadata."""

from runtally.otlp.agents import about
from runtally.otlp.agents.known import CLAUDE, COPILOT, COPILOT_CHAT, OPENCODE, Agent, Signal
from runtally.otlp.agents.records import Place, read_claude_span
from runtally.otlp.attributes import AI_SDK_PREFIX, OPERATION, read_free
from runtally.otlp.calls import Call
from runtally.otlp.spans import is_call
from runtally.otlp.values import Span

_CHAT = "chat"


def read_other_span(agent: Agent, span: Span, place: Place) -> Call | None:
    """Return the call of an agent's span that is not read like other spans; None if it has none."""
    return read_claude_span(span, place) if agent is CLAUDE else None


def is_agents_call(agent: Agent, span: Span) -> bool:
    """Return whether the span of an agent is a call of a model."""
    if agent.signal is not Signal.TRACES or not is_call(span):
        return False
    # Its chats are enclosed by agent spans with their sums.
    return agent not in {COPILOT, COPILOT_CHAT} or span.attributes.get(OPERATION) == _CHAT


def add_agent(call: Call, agent: Agent, span: Span, more: frozenset[str], *, keeps_email: bool) -> None:
    """Add the agent and its user to the call, and correct the agent's own conventions; `more` are attributes to keep."""
    facts = call.facts
    if agent.prefers_response_model and "response_model" in facts:
        facts["model"] = facts["response_model"]
    if "provider" in facts:
        if agent is OPENCODE:
            facts["provider"] = facts["provider"].partition(".")[0]
        elif agent in {COPILOT, COPILOT_CHAT} and facts["provider"].casefold() == "github":
            facts["provider"] = "github-copilot"
    described = about.describe(agent, span.attributes, span.resource.attributes, facts, keeps_email=keeps_email)
    subagent = facts.pop("agent", None)
    if subagent is not None:
        described.setdefault("agentName", subagent)
    call.about = described
    # Here the agent itself sets the AI SDK's metadata, not people: opencode writes the user `unknown` there.
    added = {name: value for name, value in span.attributes.items() if not name.startswith(AI_SDK_PREFIX)}
    call.free = read_free(added, more)
