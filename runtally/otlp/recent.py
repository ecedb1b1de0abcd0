"""Remember what a worker stored in the last minute: inner spans end first, so an outer one may come in a later request.

Other workers do not know of it; one call may then stay two runs, if its spans are sent in different requests.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

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


_NONE: tuple[float, Below] = (0.0, ())


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
        self._above: dict[SpanPlace, tuple[float, Below]] = {}
        self._taken: dict[SpanPlace, tuple[float, Below]] = {}
        self._people: dict[SpanPlace, tuple[float, People]] = {}
        self._entries: deque[_Entry] = deque()
        self._calls: dict[_Key, dict[str, deque[_Stored]]] = {}
        self._scopes: dict[_Sender, Counter[str]] = {}
        """How many calls of each scope a sender has; most senders have one instrumentation, and no twins."""

    def below(self, project_id: str, key: bytes) -> Below:
        """Return the stored calls of the project below this span."""
        until, calls = self._above.get((project_id, key), _NONE)
        return calls if until > self._seconds() else ()

    def people_of(self, project_id: str, key: bytes) -> People | None:
        """Return the session and the user that a span of the project named."""
        until, people = self._people.get((project_id, key), (0.0, None))
        return people if until > self._seconds() else None

    def add_people(self, people: Mapping[SpanPlace, People]) -> None:
        """Remember the sessions and users that spans named."""
        until = self._seconds() + SECONDS
        for place, named in people.items():
            self._people.pop(place, None)
            self._people[place] = until, named
        while self._people and (
            len(self._people) > MAX_CALLS or next(iter(self._people.values()))[0] <= until - SECONDS
        ):
            del self._people[next(iter(self._people))]

    def takes(self, call: Call) -> bool:
        """Return whether a stored call has this one, of which one encloses the other, as its twin.

        Each stored call takes one twin; a twin that is sent again is taken again.
        """
        if self._taken and self._taken.get((call.project_id, call.key), _NONE)[0] > self._seconds():
            return True
        if self._scopes.get(_sender(call), {}).keys() <= {call.scope}:
            return False
        for key in _keys(call):
            for scope, queue in islice(self._calls.get(key, {}).items(), _NEIGHBOURS):
                if scope != call.scope and _take(call, queue):
                    _put(self._taken, (call.project_id, call.key), self._seconds())
                    return True
        return False

    def add(self, calls: Sequence[Call], above: Iterable[tuple[SpanPlace, Below]]) -> None:
        """Remember committed calls, and the spans above them that have not come yet."""
        now = self._seconds()
        self._expire(now)
        for place, below in above:
            _put(self._above, place, now, joined(self.below(*place), below))
        for call in calls[-MAX_CALLS:]:
            if not 0 < call.start <= call.end:
                continue
            stored, sender, keys = _Stored(call), _sender(call), tuple(_keys(call))
            self._entries.append(_Entry(now + SECONDS, sender, stored, keys))
            if sender not in self._scopes:
                self._scopes[sender] = Counter()
            self._scopes[sender][call.scope] += 1
            for key in keys:
                self._queue(key, call.scope).append(stored)

    def _queue(self, key: _Key, scope: str) -> deque[_Stored]:
        scopes = self._calls.get(key)
        if scopes is None:
            scopes = self._calls[key] = {}
        queue = scopes.get(scope)
        if queue is None:
            queue = scopes[scope] = deque()
        return queue

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
        for kept in (self._above, self._taken):
            while kept and ((first := next(iter(kept))) and (kept[first][0] <= now or len(kept) > MAX_CALLS)):
                del kept[first]


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


def _put(kept: dict[SpanPlace, tuple[float, Below]], place: SpanPlace, now: float, below: Below = ()) -> None:
    """Move the place to the end, so that the first to expire stands first."""
    kept.pop(place, None)
    kept[place] = now + SECONDS, below


def _sender(call: Call) -> _Sender:
    return call.project_id, call.resource.digest


def _keys(call: Call) -> Iterable[_Key]:
    return [(call.project_id, call.resource.digest, call.status is Status.SUCCESS, model) for model in call.models]
