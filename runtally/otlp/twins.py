"""Find twins, records of one call by several instrumentations, and keep one of them.

Twins need not be nested: a library may trace itself in a trace of its own, apart from its user's. So twins are
recognised by their content: one encloses the other in time, and both have the same model, tokens and outcome, but
different scopes.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

from runtally.models.run import Status
from runtally.otlp.calls import Call, fill

TOLERANCE_NS = 100_000
"""The tolerance of times: two instrumentations of one process read its clock one after the other."""
# Langfuse's SDK begins a call before the instrumentation around it does, and ends a streamed one before that hears of the
# last part.
_LANGFUSE, _LANGFUSE_NS = "langfuse-sdk", 5_000_000
# A stream that is left early ends for one of them after the other.
_SAME_INPUT_NS = 5_000_000
TOKENS, SHARE = 8, 0.02
"""The tolerance of output counts: so many tokens, or this part of the larger count."""
# A call is compared with its neighbours in time; more are hardly ever under way in one process.
_NEIGHBOURS = 128
# The most comparisons for a request of equal calls; beyond it each call is compared with few.
_MAX_PAIRS = 200_000
_FEW = 8
_ANY = -1
_UNKNOWN = -2

_Key: TypeAlias = tuple[str, bytes, bool, str, int]


class _ScopeCalls:
    """Similar calls of one scope, by their start."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.starts: list[int] = []
        self.longest = 0


class Result(Protocol):
    """How a call ended, and what it used."""

    @property
    def status(self) -> Status: ...

    @property
    def tokens(self) -> tuple[int | None, int | None]: ...


class Outline(Result, Protocol):
    """The values that two records of one call have in common."""

    scope: str
    start: int
    end: int


def may_be_same(call: Result, other: Result) -> bool:
    """Return whether no value of the two records contradicts that they are one call."""
    return (
        (call.status is Status.SUCCESS) is (other.status is Status.SUCCESS)
        and _equal(call.tokens[0], other.tokens[0])
        and _close(call.tokens[1], other.tokens[1])
    )


def encloses(outer: Outline, inner: Outline) -> bool:
    """Return whether the outer call was under way all the time that the inner one was."""
    tolerance = _tolerance(outer.scope, inner.scope)
    # Not more than half of a call: the next one with the same input may follow at once.
    longest = min(_SAME_INPUT_NS, (inner.end - inner.start) // 2)
    of_end = max(tolerance, longest) if _have_same_input(outer, inner) else tolerance
    return outer.start <= inner.start + tolerance and outer.end >= inner.end - of_end


def keep_one_of_each(calls: Sequence[Call]) -> list[Call]:
    """Keep one of each group of twins; it is filled from the others."""
    takers = find_twins(calls)
    # Shorter calls come first, so a call's own twin is known before the call is taken by a longer one.
    stays: dict[int, int] = {}
    for place, taker in takers.items():
        stays[place] = stays.get(taker, taker)
        fill(calls[stays[place]], calls[place], is_same=True)
    return [call for place, call in enumerate(calls) if place not in takers]


def find_twins(calls: Sequence[Call]) -> dict[int, int]:
    """Map each twin to the call that takes it, by position, the shortest first.

    One that takes another may itself be taken.
    """
    if len({call.scope for call in calls}) < 2:  # noqa: PLR2004  # Twins have different scopes.
        return {}
    timed = [place for place, call in enumerate(calls) if 0 < call.start <= call.end]
    timed.sort(key=lambda place: calls[place].end - calls[place].start)
    ranks = {place: rank for rank, place in enumerate(timed)}
    by_scope = _by_scope(calls, timed)
    takers: dict[int, int] = {}
    scopes = {place: calls[place].scopes for place in timed}
    pairs = 0
    for place in timed:
        call = calls[place]
        best, left = None, _NEIGHBOURS if pairs < _MAX_PAIRS else _FEW
        limit = left
        for other in _neighbours(call, by_scope, left):
            left -= 1
            if (
                ranks[other] > ranks[place]
                and (best is None or ranks[other] < ranks[best])
                and encloses(calls[other], call)
                and may_be_same(call, calls[other])
                and scopes[other].isdisjoint(scopes[place])
            ):
                best = other
        pairs += limit - left
        if best is not None:
            scopes[best] |= scopes[place]
            takers.setdefault(best, place)
    return {place: takers[place] for place in timed if place in takers}


def _by_scope(calls: Sequence[Call], places: Sequence[int]) -> dict[_Key, dict[str, _ScopeCalls]]:
    """Group the calls by the values that twins share, each with the calls of the same input tokens, and with all."""
    by_scope: dict[_Key, dict[str, _ScopeCalls]] = {}
    for place in sorted(places, key=lambda place: calls[place].start):
        call = calls[place]
        for key in _keys(call, (call.facts.get("input", _UNKNOWN), _ANY)):
            group = by_scope.setdefault(key, {}).setdefault(call.scope, _ScopeCalls())
            group.calls.append(place)
            group.starts.append(call.start)
            group.longest = max(group.longest, call.end - call.start)
    return by_scope


def _keys(call: Call, inputs: tuple[int, int]) -> Iterator[_Key]:
    for model in call.models:
        for tokens in inputs:
            yield call.project_id, call.resource.digest, call.status is Status.SUCCESS, model, tokens


def _neighbours(call: Call, by_scope: dict[_Key, dict[str, _ScopeCalls]], limit: int) -> Iterator[int]:
    """Yield calls of other scopes that were under way when this one ended, the latest first; at most `limit`."""
    tokens = call.facts.get("input")
    inputs = (_ANY, _ANY) if tokens is None else (tokens, _UNKNOWN)
    for key in dict.fromkeys(_keys(call, inputs)):
        for scope, group in by_scope.get(key, {}).items():
            if limit <= 0:
                return
            limit -= 1
            if scope == call.scope:
                continue
            tolerance = _tolerance(call.scope, scope)
            last = bisect_right(group.starts, call.start + tolerance) - 1
            earliest = call.end - max(tolerance, _SAME_INPUT_NS) - group.longest
            while last >= 0 and limit > 0 and group.starts[last] >= earliest:
                limit -= 1
                yield group.calls[last]
                last -= 1


def _tolerance(*scopes: str) -> int:
    return _LANGFUSE_NS if _LANGFUSE in scopes else TOLERANCE_NS


def _have_same_input(call: Outline, other: Outline) -> bool:
    return call.tokens[0] is not None and call.tokens[0] == other.tokens[0]


def _equal(tokens: int | None, others: int | None) -> bool:
    return tokens is None or others is None or tokens == others


def _close(tokens: int | None, others: int | None) -> bool:
    return tokens is None or others is None or abs(tokens - others) <= max(TOKENS, SHARE * max(tokens, others))
