"""Remember what a worker stored in the last minute: inner spans end first, so an outer one may come in a later request.

Other workers do not know of it; one call may then stay two runs, if its spans are sent in different requests.
"""

import asyncio
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from runtally.models.run import Status
from runtally.otlp.calls import Call
from runtally.otlp.nesting import Below, People, joined
from runtally.otlp.twins import encloses, may_be_same

SECONDS = 60.0
MAX_CALLS = 20_000
# The same limit as within a request: calls under way at the same time.
_NEIGHBOURS = 64

_Sender: TypeAlias = tuple[str, bytes]
"""A project and the digest of a resource."""
_Key: TypeAlias = tuple[str, bytes, bool, str]
SpanPlace: TypeAlias = tuple[str, bytes]
"""A project and a span. Projects are kept apart: spans of one say nothing about another's."""


_Said = TypeVar("_Said")


class _Lasting(Generic[_Said]):
    """What was said of spans in the last minute, the first to expire first."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        # Of a dict, finding the first entry takes the longer the more before it were deleted.
        self.kept: OrderedDict[SpanPlace, tuple[float, _Said]] = OrderedDict()

    def get(self, place: SpanPlace) -> _Said | None:
        known = self.kept.get(place)
        return known[1] if known is not None and known[0] > self._seconds() else None

    def put(self, place: SpanPlace, said: _Said) -> None:
        self.kept[place] = self._seconds() + SECONDS, said
        self.kept.move_to_end(place)

    def expire(self, now: float) -> None:
        kept = self.kept
        while kept and (len(kept) > MAX_CALLS or next(iter(kept.values()))[0] <= now):
            kept.popitem(last=False)


class Stored:
    """A call that a request stores or has stored, and the scopes of the records of it that came so far."""

    __slots__ = ("above", "end", "is_lost", "key", "scope", "scopes", "settled", "start", "status", "tokens")

    def __init__(self, call: Call, settled: asyncio.Event) -> None:
        self.scope, self.start, self.end = call.scope, call.start, call.end
        self.status, self.tokens = call.status, call.tokens
        self.key, self.above = call.key, _above(call)
        self.settled = settled
        self.scopes = call.scopes
        self.is_lost = False


class Claim(NamedTuple):
    """What a request has of its calls to store itself, and those that another call has taken."""

    calls: list[Call]
    taken: list[tuple[Call, Stored]]
    remembered: list[tuple[Call, Stored]]
    settled: asyncio.Event

    def settle(self, stored: Iterable[Call]) -> None:
        """Say which of the calls are committed; the others have no twins."""
        kept = {id(call) for call in stored}
        for call, one in self.remembered:
            one.is_lost = id(call) not in kept
        self.settled.set()

    async def given_back(self) -> list[Call]:
        """Wait for the requests of the calls that took others, and return those whose taker was not stored."""
        for _, taker in self.taken:
            await taker.settled.wait()
        return [call for call, taker in self.taken if taker.is_lost]


class _Entry(NamedTuple):
    until: float
    sender: _Sender
    stored: Stored
    keys: tuple[_Key, ...]


class Recent:
    """The calls that were stored lately; one per process."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._above: _Lasting[Below] = _Lasting(seconds)
        self._taken: _Lasting[Stored] = _Lasting(seconds)
        self._people: _Lasting[People] = _Lasting(seconds)
        self._entries: deque[_Entry] = deque()
        self._calls: defaultdict[_Key, defaultdict[str, deque[Stored]]] = defaultdict(lambda: defaultdict(deque))
        self._scopes: defaultdict[_Sender, Counter[str]] = defaultdict(Counter)
        """How many calls of each scope a sender has; most senders have one instrumentation, and no twins."""

    def below(self, project_id: str, key: bytes) -> Below:
        """Return the stored calls of the project below this span."""
        return self._above.get((project_id, key)) or ()

    def people_of(self, project_id: str, key: bytes) -> People | None:
        """Return the session and the user that a span of the project named."""
        return self._people.get((project_id, key))

    def claim(self, calls: Sequence[Call]) -> Claim:
        """Tell calls that are to be stored from twins of those that are, or are about to be.

        Each stored call takes one twin of each scope; a twin that is sent again is taken again. Between this and `Claim.settle` twins in other
        requests wait.
        """
        now = self._seconds()
        self._expire(now)
        taken = [(call, taker) for call in calls if (taker := self._taker_of(call)) is not None]
        of_others = {id(call) for call, _ in taken}
        claim = Claim([call for call in calls if id(call) not in of_others], taken, [], asyncio.Event())
        for call in claim.calls[-MAX_CALLS:]:
            if not 0 < call.start <= call.end:
                continue
            stored, sender, keys = Stored(call, claim.settled), _sender(call), tuple(_keys(call))
            claim.remembered.append((call, stored))
            self._entries.append(_Entry(now + SECONDS, sender, stored, keys))
            self._scopes[sender][call.scope] += 1
            for key in keys:
                self._calls[key][call.scope].append(stored)
        return claim

    def _taker_of(self, call: Call) -> Stored | None:
        """Return the call that has this one as its twin, of which one encloses the other."""
        taker = self._taken.get((call.project_id, call.key))
        if taker is not None and not taker.is_lost:
            return taker
        if self._scopes.get(_sender(call), {}).keys() <= {call.scope}:
            return None
        for key in _keys(call):
            for scope, queue in islice(self._calls.get(key, {}).items(), _NEIGHBOURS):
                if scope != call.scope and (taker := _take(call, queue)) is not None:
                    self._taken.put((call.project_id, call.key), taker)
                    return taker
        return None

    def add(self, above: Iterable[tuple[SpanPlace, Below]], people: Mapping[SpanPlace, People]) -> None:
        """Remember the spans above committed calls that have not come yet, and the sessions and users that spans named."""
        for place, below in above:
            self._above.put(place, joined(self.below(*place), below))
        for place, named in people.items():
            self._people.put(place, named)
        self._expire(self._seconds())

    def _expire(self, now: float) -> None:
        entries = self._entries
        while entries and (entries[0].until <= now or len(entries) > MAX_CALLS):
            _, sender, stored, keys = entries.popleft()
            self._scopes[sender][stored.scope] -= 1
            if not self._scopes[sender][stored.scope]:
                del self._scopes[sender][stored.scope]
            if not self._scopes[sender]:
                del self._scopes[sender]
            for key in keys:
                scopes = self._calls[key]
                # Queues are in the order of the entries.
                scopes[stored.scope].popleft()
                if not scopes[stored.scope]:
                    del scopes[stored.scope]
                if not scopes:
                    del self._calls[key]
        self._above.expire(now)
        self._taken.expire(now)
        self._people.expire(now)


def _take(call: Call, queue: deque[Stored]) -> Stored | None:
    """Return which of these calls, the latest first, takes the call as its twin: the one above or below it, if it is there."""
    free = [
        stored
        for stored in islice(reversed(queue), _NEIGHBOURS)
        if not stored.is_lost and call.scopes.isdisjoint(stored.scopes) and may_be_same(call, stored)
    ]
    above = _above(call)
    beside = (stored for stored in free if call.key == stored.above or stored.key == above)
    taker = next(chain(beside, (stored for stored in free if _is_enclosed(call, stored))), None)
    if taker is not None:
        taker.scopes |= call.scopes
    return taker


def _is_enclosed(call: Call, stored: Stored) -> bool:
    if stored.end - stored.start <= call.end - call.start:
        return encloses(call, stored)
    # A record that was stored first, and lacks the counts, is not completed any more.
    return stored.tokens[0] is not None and encloses(stored, call)


def _above(call: Call) -> bytes:
    """Return the key of the span above the call."""
    return call.key[: -len(call.parent_id)] + call.parent_id if call.parent_id else b""


def _sender(call: Call) -> _Sender:
    return call.project_id, call.resource.digest


def _keys(call: Call) -> Iterable[_Key]:
    return [(call.project_id, call.resource.digest, call.status is Status.SUCCESS, model) for model in call.models]
