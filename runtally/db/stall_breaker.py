"""Refuse further requests while a statement that many requests wait for is stuck.

A database that hangs, by a lock or by its disk, then costs no memory for each new request, and clients learn of it at
once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from runtally.errors import StoreBusy

# Such a statement takes milliseconds, under the heaviest load a tenth of a second.
STUCK_SECONDS = 2.0


class StallBreaker:
    """Remembers whether a call is under way, and since when."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._began: float | None = None

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Wrap one call."""
        self._began = self._clock()
        try:
            yield
        finally:
            self._began = None

    @property
    def is_stuck(self) -> bool:
        """Return whether the call takes so long that something must be wrong."""
        return self._began is not None and self._clock() - self._began > STUCK_SECONDS

    def refuse_if_stuck(self) -> None:
        """Raise `StoreBusy` if the call under way is stuck."""
        if self.is_stuck:
            raise StoreBusy
