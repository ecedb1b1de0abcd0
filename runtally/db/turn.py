"""Statements that many requests wait for, one after the other: behind one that is stuck nobody more is made to wait.

So a database that hangs, by a lock or by its disk, costs no memory for each request that comes, and clients hear of it at once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from runtally.errors import StoreBusy

# A statement of these takes milliseconds, under the heaviest load a tenth of a second.
STUCK_SECONDS = 2.0


class Turn:
    """What is under way, and since when."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._began: float | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Around one statement."""
        self._began = self._clock()
        try:
            yield
        finally:
            self._began = None

    @property
    def is_stuck(self) -> bool:
        """Whether it takes so long that something must be wrong."""
        return self._began is not None and self._clock() - self._began > STUCK_SECONDS

    def refuse_if_stuck(self) -> None:
        """Raises `StoreBusy`."""
        if self.is_stuck:
            raise StoreBusy
