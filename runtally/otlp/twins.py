"""One call that several instrumentations saw: of such records one stays.

They need not be one inside the other: a library traces itself in a trace of its own beside the one that its user has. So they are
known by what they say: one encloses the other in time, and both have the same model, tokens and ending, but not the same scope.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

from runtally.models.run import Status
from runtally.otlp.calls import Call, fill

TOLERANCE_NS = 100_000
"""Two instrumentations of one process read its clock one after the other."""
TOKENS, SHARE = 8, 0.02
"""What two counts of one output may differ by: so many tokens, or this part of the larger one."""
# A call is compared with its neighbours in time, more of which are hardly ever under way in one process.
_NEIGHBOURS = 128
# What a request of nothing but equal calls may take; then each is compared with few.
_MAX_PAIRS = 200_000
_FEW = 8
_ANY = -1
_UNKNOWN = -2

_Key: TypeAlias = tuple[str, bytes, bool, str, int]


class _Lane:
    """The calls of one scope that are alike, by their start."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.starts: list[int] = []
        self.longest = 0


class Outline(Protocol):
    """What two records of one call have in common."""

    start: int
    end: int
    status: Status

    @property
    def tokens(self) -> tuple[int | None, int | None]: ...


def may_be_same(call: Outline, other: Outline) -> bool:
    """Whether two calls of one model say nothing that contradicts that they are one."""
    return (
        (call.status is Status.SUCCESS) is (other.status is Status.SUCCESS)
        and _equal(call.tokens[0], other.tokens[0])
        and _close(call.tokens[1], other.tokens[1])
    )


def encloses(outer: Outline, inner: Outline) -> bool:
    """Whether the outer call was under way all the time that the inner one was."""
    return outer.start <= inner.start + TOLERANCE_NS and outer.end >= inner.end - TOLERANCE_NS


def keep_one_of_each(calls: Sequence[Call]) -> list[Call]:
    """The calls without twins; those that stay are told what their twins know."""
    takers = find_twins(calls)
    # The shorter comes first, so whoever takes is known before it is asked who took it.
    stays: dict[int, int] = {}
    for place, taker in takers.items():
        stays[place] = stays.get(taker, taker)
        fill(calls[stays[place]], calls[place], is_same=True)
    return [call for place, call in enumerate(calls) if place not in takers]


def find_twins(calls: Sequence[Call]) -> dict[int, int]:
    """Which calls are taken by which, by their places, the shortest first. One that takes another may itself be taken."""
    if len({call.scope for call in calls}) < 2:  # noqa: PLR2004  # Twins are of two scopes.
        return {}
    timed = [place for place, call in enumerate(calls) if 0 < call.start <= call.end]
    timed.sort(key=lambda place: calls[place].end - calls[place].start)
    ranks = {place: rank for rank, place in enumerate(timed)}
    lanes = _lanes(calls, timed)
    takers: dict[int, int] = {}
    scopes: dict[int, set[str]] = {}
    pairs = 0
    for place in timed:
        call = calls[place]
        best, left = None, _NEIGHBOURS if pairs < _MAX_PAIRS else _FEW
        limit = left
        for other in _neighbours(call, lanes, left):
            left -= 1
            if (
                ranks[other] > ranks[place]
                and (best is None or ranks[other] < ranks[best])
                and encloses(calls[other], call)
                and may_be_same(call, calls[other])
                and call.scope not in scopes.get(other, ())
            ):
                best = other
        pairs += limit - left
        if best is not None:
            scopes.setdefault(best, set()).add(call.scope)
            takers.setdefault(best, place)
    return {place: takers[place] for place in timed if place in takers}


def _lanes(calls: Sequence[Call], places: Sequence[int]) -> dict[_Key, dict[str, _Lane]]:
    """The calls by what twins must agree in, each with those that have the same input tokens, and with all."""
    lanes: dict[_Key, dict[str, _Lane]] = {}
    for place in sorted(places, key=lambda place: calls[place].start):
        call = calls[place]
        for key in _keys(call, (call.facts.get("input", _UNKNOWN), _ANY)):
            lane = lanes.setdefault(key, {}).setdefault(call.scope, _Lane())
            lane.calls.append(place)
            lane.starts.append(call.start)
            lane.longest = max(lane.longest, call.end - call.start)
    return lanes


def _keys(call: Call, inputs: tuple[int, int]) -> Iterator[_Key]:
    for model in call.models:
        for tokens in inputs:
            yield call.project_id, call.resource.digest, call.status is Status.SUCCESS, model, tokens


def _neighbours(call: Call, lanes: dict[_Key, dict[str, _Lane]], limit: int) -> Iterator[int]:
    """Calls of other scopes that began before this one ended its first moment, the latest first; not more than the limit."""
    tokens = call.facts.get("input")
    inputs = (_ANY, _ANY) if tokens is None else (tokens, _UNKNOWN)
    for key in dict.fromkeys(_keys(call, inputs)):
        for scope, lane in lanes.get(key, {}).items():
            if limit <= 0:
                return
            limit -= 1
            if scope == call.scope:
                continue
            last = bisect_right(lane.starts, call.start + TOLERANCE_NS) - 1
            earliest = call.end - TOLERANCE_NS - lane.longest
            while last >= 0 and limit > 0 and lane.starts[last] >= earliest:
                limit -= 1
                yield lane.calls[last]
                last -= 1


def _equal(tokens: int | None, others: int | None) -> bool:
    return tokens is None or others is None or tokens == others


def _close(tokens: int | None, others: int | None) -> bool:
    return tokens is None or others is None or abs(tokens - others) <= max(TOKENS, SHARE * max(tokens, others))
