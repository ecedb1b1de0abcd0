"""Keep the innermost of nested calls. Spans that are no calls may lie between.

Outer calls are those of frameworks, which repeat what the client library below them records. Pure.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from runtally.models.run import Status
from runtally.otlp.attributes import FIELDS, KINDS, read_facts
from runtally.otlp.calls import Call, fill
from runtally.otlp.twins import may_be_same
from runtally.otlp.values import TRACE_ID_BYTES, Attributes, Span
from runtally.pricing.providers import stored_name

SpanKey: TypeAlias = bytes
"""Trace id and span id."""

# A chain of spans may be as long as a request; the span that is looked for is near.
_MAX_STEPS = 64
# What providers and clouds add to a model's name: a vendor, a date, a version.
_VERSION = re.compile(
    r"^(?:(?:us|eu|apac|global)\.)?(?:amazon|anthropic|cohere|meta|mistral)\.|-latest$|[-@]\d{8}|-\d{4}-\d\d-\d\d|-v\d+:\d+$"
)
_PEOPLE = frozenset(name for field in ("session", "user", "agent") for name in FIELDS[field][2])
_KINDS = frozenset(KINDS)
_TOOLS = frozenset(("execute_tool", "ai.toolcall", "tool"))
SUBAGENT = "sub-agent"
"""What Copilot says of the calls of its subagents, whose name is that of a span above."""

# So many calls of one span that is still to come are remembered.
_MAX_BELOW = 8


class Brief(NamedTuple):
    """What tells a call from the one that encloses it."""

    models: frozenset[str]
    tokens: tuple[int | None, int | None]
    status: Status
    provider: str | None
    is_embedding: bool


Below: TypeAlias = tuple[Brief, ...]
"""Calls below a span."""

People: TypeAlias = tuple[str | None, str | None, str | None]
"""The session, the user and the agent that a span names."""


class Lineage:
    """The parents of the spans of a request."""

    def __init__(self) -> None:
        self._parents: dict[SpanKey, SpanKey] = {}
        self._tools: set[SpanKey] = set()
        self.people: dict[tuple[str, SpanKey], People] = {}
        """The session, user and agent of each span that names one, by its project."""

    def add(self, span: Span, project_id: str) -> SpanKey:
        """Add a span and return its key; empty if its ids are not valid."""
        if not span.trace_id or not span.span_id:
            return b""
        key = span.trace_id + span.span_id
        if not _PEOPLE.isdisjoint(span.attributes):
            self.people[project_id, key] = _people_of(span.attributes)
        if any(str(span.attributes[name]).casefold() in _TOOLS for name in _KINDS & span.attributes.keys()):
            self._tools.add(key)
        if span.parent_id and span.parent_id != span.span_id:
            self._parents[key] = span.trace_id + span.parent_id
        return key

    def up(self, key: SpanKey) -> Iterator[SpanKey]:
        """Yield the ancestors of a span, the nearest first; of a very long chain only the nearest."""
        for _ in range(_MAX_STEPS):
            parent = self._parents.get(key)
            if parent is None:
                return
            yield parent
            key = parent

    def enclosing(self, key: SpanKey) -> Iterator[SpanKey]:
        """Yield the ancestors of a span up to the nearest run of a tool: whoever asked for it is another call."""
        for parent in self.up(key):
            if key in self._tools:
                return
            yield parent
            key = parent

    def fill_people(self, calls: Sequence[Call], earlier: Callable[[str, SpanKey], People | None]) -> None:
        """Fill the empty session and user of calls from the nearest span above that names them, here or in an `earlier` request.

        So is the name of a coding agent's subagent, where a call is that of one.
        """
        for call in calls:
            is_unnamed = call.about.get("querySource") == SUBAGENT and "agentName" not in call.about
            if "session" in call.facts and "user" in call.facts and not is_unnamed:
                continue
            for key in self.up(call.key):
                people = self.people.get((call.project_id, key)) or earlier(call.project_id, key)
                if people is None:
                    continue
                for field, name in zip(("session", "user"), people, strict=False):
                    if name is not None:
                        call.facts.setdefault(field, name)
                if is_unnamed and people[2] is not None:
                    call.about = {"agentName": people[2], **call.about}

    def above(self, keys: Iterable[SpanKey]) -> set[SpanKey]:
        """Return all spans that enclose these, including the first of each chain that is not in this request.

        Each is visited once, so chains that meet, and cycles, take no longer.
        """
        found: set[SpanKey] = set()
        for each in keys:
            key = each
            while key not in self._tools and (parent := self._parents.get(key)) is not None and parent not in found:
                found.add(parent)
                key = parent
        return found

    def is_unknown(self, key: SpanKey) -> bool:
        """Return whether this request does not hold the span, so that its parent is unknown."""
        return key not in self._parents


def _people_of(attributes: Attributes) -> People:
    facts = read_facts({name: attributes[name] for name in _PEOPLE & attributes.keys()}, {})
    return facts.get("session"), facts.get("user"), facts.get("agent")


def brief(call: Call) -> Brief:
    provider = call.facts.get("provider")
    return Brief(call.models, call.tokens, call.status, provider and stored_name(provider), _is_embedding(call))


def joined(below: Below, more: Below) -> Below:
    return tuple(dict.fromkeys((*below, *more)))[:_MAX_BELOW]


def _is_another(outer: Brief, inner: Brief) -> bool:
    """Return whether the inner call was made by a tool of the outer one: another model, with counts that are not the outer's."""
    models = {_VERSION.sub("", name) for name in outer.models}
    if not models or not inner.models or not models.isdisjoint(_VERSION.sub("", name) for name in inner.models):
        return False
    if None not in {outer.tokens[0], inner.tokens[0]}:
        return not may_be_same(outer, inner)
    if any(model.startswith(other) or other.startswith(model) for model in outer.models for other in inner.models):
        return False
    have_other_providers = None not in {outer.provider, inner.provider} and outer.provider != inner.provider
    return have_other_providers or outer.is_embedding is not inner.is_embedding


def _is_embedding(call: Call) -> bool:
    return any("embed" in name for name in (*call.models, str(call.facts.get("operation", "")).casefold()))


def keep_innermost(calls: Sequence[Call], lineage: Lineage, above: Mapping[SpanKey, Below]) -> list[Call]:
    """Keep the calls that enclose no other call; `above` are spans that enclose calls of another request.

    The kept calls are filled from the outer ones, and get the nearest kept call as their parent.
    """
    outer = lineage.above([*(call.key for call in calls if call.key), *above])
    outer.update(above)
    inner = [call for call in calls if call.key not in outer]
    taken = {call.key: call for call in calls if call.key in outer}
    if taken:
        others = _with_calls_of_tools(taken, inner, lineage, above)
        inner += [taken.pop(key) for key in others]
    if taken:
        chains = {call.key: [key for key in lineage.enclosing(call.key) if key in taken] for call in inner}
        shares = Counter(key for chain in chains.values() for key in chain)
        for call in inner:
            for key in chains[call.key]:
                fill(call, taken[key], is_same=shares[key] == 1)
            call.parent_id = _parent_that_stays(call, lineage, taken.keys())
    return inner


def _with_calls_of_tools(
    taken: Mapping[SpanKey, Call], inner: Sequence[Call], lineage: Lineage, above: Mapping[SpanKey, Below]
) -> list[SpanKey]:
    """Return the outer calls below which there are only calls of their tools: they are calls of their own."""
    below: dict[SpanKey, list[Brief]] = {}
    for call in inner:
        for key in lineage.enclosing(call.key):
            if key in taken:
                below.setdefault(key, []).append(brief(call))
    for place, stored in above.items():
        for key in (place, *lineage.enclosing(place)):
            if key in taken:
                below.setdefault(key, []).extend(stored)
    return [key for key, calls in below.items() if all(_is_another(brief(taken[key]), call) for call in calls)]


def _parent_that_stays(call: Call, lineage: Lineage, taken: Iterable[SpanKey]) -> bytes:
    for key in lineage.up(call.key):
        if key not in taken:
            return key[TRACE_ID_BYTES:]
    return b""
