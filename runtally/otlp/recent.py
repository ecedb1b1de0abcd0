"""Remember what a worker stored in the last minute: inner spans end first, so an outer one may come in a later request.

Other workers do not know of it; one call may then stay two runs, if its spans are sent in different requests.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
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


class _Stored:
    """A call that was stored, and whether it has taken a duplicate since."""

    __slots__ = ("end", "scope", "start", "status", "tokens", "took")

    def __init__(self, call: Call) -> None:
        self.scope, self.start, self.end = call.scope, call.start, call.end
        self.status, self.tokens = call.status, call.tokens
        self.took = False


class _Entry(NamedTuple):
    until: float
    sender: _Sender
    stored: _Stored
    keys: tuple[_Key, ...]


class Recent:
    """The calls that were stored lately; one per process."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._above: _Lasting[Below] = _Lasting(seconds)
        self._taken: _Lasting[str] = _Lasting(seconds)
        self._people: _Lasting[People] = _Lasting(seconds)
        self._entries: deque[_Entry] = deque()
        self._calls: defaultdict[_Key, defaultdict[str, deque[_Stored]]] = defaultdict(lambda: defaultdict(deque))
        self._scopes: defaultdict[_Sender, Counter[str]] = defaultdict(Counter)
        """How many calls of each scope a sender has; most senders have one instrumentation, and no twins."""

    def below(self, project_id: str, key: bytes) -> Below:
        """Return the stored calls of the project below this span."""
        return self._above.get((project_id, key)) or ()

    def people_of(self, project_id: str, key: bytes) -> People | None:
        """Return the session and the user that a span of the project named."""
        return self._people.get((project_id, key))

    def add_people(self, people: Mapping[SpanPlace, People]) -> None:
        """Remember the sessions and users that spans named."""
        for place, named in people.items():
            self._people.put(place, named)
        self._people.expire(self._seconds())

    def takes(self, call: Call) -> bool:
        """Return whether a stored call has this one, of which one encloses the other, as its twin.

        Each stored call takes one twin; a twin that is sent again is taken again.
        """
        if self._taken.get((call.project_id, call.key)) is not None:
            return True
        if self._scopes.get(_sender(call), {}).keys() <= {call.scope}:
            return False
        for key in _keys(call):
            for scope, queue in islice(self._calls.get(key, {}).items(), _NEIGHBOURS):
                if scope != call.scope and _take(call, queue):
                    self._taken.put((call.project_id, call.key), scope)
                    return True
        return False

    def add(self, calls: Sequence[Call], above: Iterable[tuple[SpanPlace, Below]]) -> None:
        """Remember committed calls, and the spans above them that have not come yet."""
        now = self._seconds()
        self._expire(now)
        for place, below in above:
            self._above.put(place, joined(self.below(*place), below))
        for call in calls[-MAX_CALLS:]:
            if not 0 < call.start <= call.end:
                continue
            stored, sender, keys = _Stored(call), _sender(call), tuple(_keys(call))
            self._entries.append(_Entry(now + SECONDS, sender, stored, keys))
            self._scopes[sender][call.scope] += 1
            for key in keys:
                self._calls[key][call.scope].append(stored)

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


def _take(call: Call, queue: deque[_Stored]) -> bool:
    """Return whether one of these calls, the latest first, takes the call as its twin."""
    for stored in islice(reversed(queue), _NEIGHBOURS):
        is_shorter = stored.end - stored.start <= call.end - call.start
        # A record that was stored first, and lacks the counts, is not completed any more.
        is_enclosed = encloses(call, stored) if is_shorter else stored.tokens[0] is not None and encloses(stored, call)
        if is_enclosed and not stored.took and may_be_same(call, stored):
            stored.took = True
            return True
    return False


def _sender(call: Call) -> _Sender:
    return call.project_id, call.resource.digest


def _keys(call: Call) -> Iterable[_Key]:
    return [(call.project_id, call.resource.digest, call.status is Status.SUCCESS, model) for model in call.models]
