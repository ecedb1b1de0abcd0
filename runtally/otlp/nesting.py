"""Keep the innermost of nested calls. Spans that are no calls may lie between.

Outer calls are those of frameworks, which repeat what the client library below them records. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from runtally.otlp.calls import Call, fill
from runtally.otlp.values import TRACE_ID_BYTES, Span

SpanKey: TypeAlias = bytes
"""Trace id and span id."""

# A chain of spans may be as long as a request; the span that is looked for is near.
_MAX_STEPS = 64


class Lineage:
    """The parents of the spans of a request."""

    def __init__(self) -> None:
        self._parents: dict[SpanKey, SpanKey] = {}

    def add(self, span: Span) -> SpanKey:
        """Add a span and return its key; empty if its ids are not valid."""
        if not span.trace_id or not span.span_id:
            return b""
        key = span.trace_id + span.span_id
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

    def above(self, keys: Iterable[SpanKey]) -> set[SpanKey]:
        """Return all ancestors of these spans, including the first of each chain that is not in this request.

        Each is visited once, so chains that meet, and cycles, take no longer.
        """
        found: set[SpanKey] = set()
        for key in keys:
            parent = self._parents.get(key)
            while parent is not None and parent not in found:
                found.add(parent)
                parent = self._parents.get(parent)
        return found

    def is_unknown(self, key: SpanKey) -> bool:
        """Return whether this request does not hold the span, so that its parent is unknown."""
        return key not in self._parents


def keep_innermost(calls: Sequence[Call], lineage: Lineage, above: Sequence[SpanKey]) -> list[Call]:
    """Keep the calls that enclose no other call; `above` are spans that enclose a call of another request.

    The kept calls are filled from the outer ones, and get the nearest kept call as their parent.
    """
    outer = lineage.above([*(call.key for call in calls if call.key), *above])
    outer.update(above)
    inner = [call for call in calls if call.key not in outer]
    taken = {call.key: call for call in calls if call.key in outer}
    if taken:
        chains = {call.key: [key for key in lineage.up(call.key) if key in taken] for call in inner}
        shares = Counter(key for chain in chains.values() for key in chain)
        for call in inner:
            for key in chains[call.key]:
                fill(call, taken[key], is_same=shares[key] == 1)
            call.parent_id = _parent_that_stays(call, lineage, taken.keys())
    return inner


def _parent_that_stays(call: Call, lineage: Lineage, taken: Iterable[SpanKey]) -> bytes:
    for key in lineage.up(call.key):
        if key not in taken:
            return key[TRACE_ID_BYTES:]
    return b""
