"""The known coding agents, and the one signal that is read from each, since most report a call in several.

An agent is recognised by its service, or by the scope or the names of its events where a user may rename the service.

Agents send content without being asked to: commands, conversations, the prompt among the arguments of the process. So
user, repository and purpose of a call are read from the listed attributes, and everything else is not even decoded.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from runtally.otlp import parse
from runtally.otlp.attributes import Facts
from runtally.otlp.values import Attributes
from runtally.remembered import remembered


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
OPENHANDS = Agent("openhands", Signal.TRACES, ("openhands",))
OPENCODE = Agent("opencode", Signal.TRACES, ("opencode",), ("opencode",), prefers_response_model=True)
AGENTS = (
    CLAUDE, CODEX, GEMINI, QWEN, CLINE, COPILOT, COPILOT_CHAT, OPENCODE, OPENHANDS,
    Agent("goose", Signal.TRACES, ("goose",)),
    Agent("continue-cli", Signal.METRICS, ("continue-cli",), ("continue-cli",)),
    # The format of its request records is unknown.
    Agent("cursor", Signal.NONE, ("cursor",), ("cursor.telemetry",)),
)  # fmt: skip


def find_agent(resource: Attributes, scope: str, event_name: str = "") -> Agent | None:
    """Return the agent that recorded something; None if it is not a known one."""
    service = parse.service(resource.get("service.name", "")) or ""
    # Only the first part of an event's name is compared, and there are few of them.
    return _find(service, scope, event_name.partition(".")[0])


@remembered(1_024)
def _find(service: str, scope: str, event: str) -> Agent | None:
    name = service.casefold()
    for agent in AGENTS:
        if any(name == known or name.startswith(f"{known}_") for known in agent.services):
            return agent
    for agent in AGENTS:
        if scope.startswith(agent.scopes) and agent.scopes:
            return agent
        if agent.events and event == agent.events:
            return agent
    return None


REPOSITORIES = ("vcs.repository.name", "github.copilot.git.repository")
VERSION = "service.version"
METADATA: Mapping[str, tuple[str, ...]] = {
    "agentVersion": ("app.version", VERSION),
    "team": ("team.id",),
    "department": ("department",),
    "cost_center": ("cost_center",),
    "repo": REPOSITORIES,
    "branch": ("vcs.ref.head.name", "github.copilot.git.branch"),
    "environment": ("deployment.environment.name", "env"),
    "querySource": ("query_source", "github.copilot.initiator"),
    "agentName": ("agent.name", "agent_name", "subagent_name"),
    "skill": ("skill.name",),
    "effort": ("effort",),
    "speed": ("speed",),
    "role": ("role",),
    "authType": ("auth_type",),
    "authMode": ("auth_mode",),
    "entrypoint": ("app.entrypoint", "entrypoint"),
    "promptId": ("prompt.id", "prompt_id"),
    "attempt": ("attempt",),
}
"""Names in metadata, and the attributes of a record or its resource that they are read from."""
# What these two call an environment if nobody named one; opencode's is the channel of its release.
_DEFAULTS = {CODEX: ("env", "dev"), OPENCODE: ("deployment.environment.name", "latest")}
EMAIL = "user.email"
_NAME = "user.name"
PERSONS = ("user.account_uuid", "user.account_id", "user.id", "installation.id", "enduser.id")
"""The user if none is named: an account, else a random id of the machine, else what an application set."""
# The last one is Cline's: its sessions are tasks.
_SESSIONS = ("session.id", "conversation.id", "gen_ai.conversation.id", "ulid")

NAMES = frozenset({*(name for names in METADATA.values() for name in names), _NAME, EMAIL, *PERSONS, *_SESSIONS})
"""All attributes that are read here."""

LIST_PRICE = "API list price"
"""The meaning of a cost for users on a plan: they do not pay by token."""


def describe(
    agent: Agent, attributes: Attributes, resource: Attributes, facts: Facts, *, keeps_email: bool
) -> dict[str, Any]:
    """Fill in the user and the session, and return the metadata."""
    sent = {**resource, **{name: value for name, value in attributes.items() if value != ""}}
    if not agent.sends_version:
        sent.pop(VERSION, None)
    if (default := _DEFAULTS.get(agent)) and sent.get(default[0]) == default[1]:
        del sent[default[0]]
    about: dict[str, Any] = {"agent": agent.name}
    for key, names in METADATA.items():
        found = _first(sent, names)
        if found is not None:
            about[key] = _without_credentials(found) if key == "repo" else found
    attempt = parse.count(sent["attempt"]) if "attempt" in sent else None
    if attempt is not None:
        about["attempt"] = attempt
    user = _user(resource, sent, keeps_email=keeps_email)
    facts.pop("user", None)
    if user is not None:
        facts["user"] = user
    session = _first(sent, _SESSIONS)
    if session is not None:
        facts["session"] = session
    if _is_on_a_plan(agent, sent, facts):
        about["costBasis"] = LIST_PRICE
    return about


def _user(resource: Attributes, sent: Attributes, *, keeps_email: bool) -> str | None:
    named = _first(resource, (_NAME,)) or _first(sent, (_NAME, *((EMAIL,) if keeps_email else ())))
    return named or next((one for one in _each(sent, PERSONS) if keeps_email or "@" not in one), None)


def reported_cost(attributes: Attributes) -> Decimal | None:
    """Return the cost that the agent itself computed."""
    micros = attributes.get("cost_usd_micros")
    if micros is not None and (count := parse.count(micros)) is not None:
        return Decimal(count).scaleb(-6)
    cost = attributes.get("cost_usd")
    return parse.amount(cost) if cost is not None else None


def _is_on_a_plan(agent: Agent, sent: Attributes, facts: Facts) -> bool:
    mode, kind = (sent.get(name) for name in ("auth_mode", "auth_type"))
    return (
        (isinstance(mode, str) and mode.casefold().startswith("chatgpt"))
        or kind == "oauth-personal"
        or (agent.name in {"github-copilot", "copilot-chat"} and facts.get("provider") == "github-copilot")
    )


def _first(sent: Attributes, names: tuple[str, ...]) -> str | None:
    return next(_each(sent, names), None)


def _each(sent: Attributes, names: tuple[str, ...]) -> Iterator[str]:
    return (found for name in names if name in sent and (found := parse.text(sent[name])) is not None)


def _without_credentials(repository: str) -> str:
    """Return the address of a repository without a name or token in it."""
    try:
        parts = urlsplit(repository)
    except ValueError:
        return repository.rpartition("@")[2]
    if not parts.netloc:
        # Git's short form: a name such as `git` is no secret, but a password after it is.
        before, at, place = repository.rpartition("@")
        return place if at and before != "git" else repository
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
