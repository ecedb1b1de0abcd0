"""What a worker stored in the last minute, because inner spans end first: an outer one may come in a later request.

Another worker does not know of it; then one call may stay two runs, if its spans part within the second that exporters wait.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from runtally.models.run import Status
from runtally.otlp.calls import Call
from runtally.otlp.twins import encloses, may_be_same

SECONDS = 60.0
MAX_CALLS = 20_000
# As in a request: what was under way at the same time.
_NEIGHBOURS = 64

_Key: TypeAlias = tuple[str, bytes, bool, str]
SpanPlace: TypeAlias = tuple[str, bytes]
"""A project and a span. What another project's spans are above of, or like, is not known."""


class _Stored:
    """What is kept of a call that was stored, and whether it took another one since."""

    __slots__ = ("end", "scope", "start", "status", "tokens", "took")

    def __init__(self, call: Call) -> None:
        self.scope, self.start, self.end = call.scope, call.start, call.end
        self.status, self.tokens = call.status, call.tokens
        self.took = False


class _Entry(NamedTuple):
    until: float
    stored: _Stored
    keys: tuple[_Key, ...]


class Recent:
    """One per process."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._above: dict[SpanPlace, float] = {}
        self._taken: dict[SpanPlace, float] = {}
        self._entries: deque[_Entry] = deque()
        self._calls: dict[_Key, dict[str, deque[_Stored]]] = {}

    def is_above(self, project_id: str, key: bytes) -> bool:
        """Whether a call of the project below this span was stored."""
        return bool(self._above) and self._above.get((project_id, key), 0.0) > self._seconds()

    def takes(self, call: Call) -> bool:
        """Whether a stored call is a twin of this one, which encloses it. Each takes one; sent again it is taken again."""
        now = self._seconds()
        if self._taken.get((call.project_id, call.key), 0.0) > now:
            return True
        for key in _keys(call):
            for scope, queue in islice(self._calls.get(key, {}).items(), _NEIGHBOURS):
                if scope != call.scope and _take(call, queue):
                    _put(self._taken, (call.project_id, call.key), now)
                    return True
        return False

    def add(self, calls: Sequence[Call], above: Iterable[SpanPlace]) -> None:
        """Keep what was committed, and the spans above that have not come yet."""
        now = self._seconds()
        self._expire(now)
        for place in above:
            _put(self._above, place, now)
        for call in calls[-MAX_CALLS:]:
            if not 0 < call.start <= call.end:
                continue
            stored, keys = _Stored(call), tuple(_keys(call))
            self._entries.append(_Entry(now + SECONDS, stored, keys))
            for key in keys:
                self._calls.setdefault(key, {}).setdefault(call.scope, deque()).append(stored)

    def _expire(self, now: float) -> None:
        entries = self._entries
        while entries and (entries[0].until <= now or len(entries) > MAX_CALLS):
            _, stored, keys = entries.popleft()
            for key in keys:
                scopes = self._calls[key]
                # They come to their queues in the order of the entries.
                scopes[stored.scope].popleft()
                if not scopes[stored.scope]:
                    del scopes[stored.scope]
                if not scopes:
                    del self._calls[key]
        for kept in (self._above, self._taken):
            while kept and ((first := next(iter(kept))) and (kept[first] <= now or len(kept) > MAX_CALLS)):
                del kept[first]


def _take(call: Call, queue: deque[_Stored]) -> bool:
    """Whether one of these, the latest first, takes the call."""
    for stored in islice(reversed(queue), _NEIGHBOURS):
        is_shorter = stored.end - stored.start <= call.end - call.start
        if is_shorter and not stored.took and encloses(call, stored) and may_be_same(call, stored):
            stored.took = True
            return True
    return False


def _put(kept: dict[SpanPlace, float], place: SpanPlace, now: float) -> None:
    """At the end, so that those that end first stand first."""
    kept.pop(place, None)
    kept[place] = now + SECONDS


def _keys(call: Call) -> Iterable[_Key]:
    return [(call.project_id, call.resource.digest, call.status is Status.SUCCESS, model) for model in call.models]
