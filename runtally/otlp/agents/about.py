"""Read the user, repository and purpose of an agent's call from the listed attributes, and nothing else.

Agents send content without being asked to: commands, conversations, the prompt among the arguments of the process. So
this is a list of what may be read, and everything else is not even decoded.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from runtally.otlp import parse
from runtally.otlp.agents.known import Agent
from runtally.otlp.attributes import Facts
from runtally.otlp.values import Attributes

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
    "querySource": ("query_source",),
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
