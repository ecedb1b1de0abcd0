"""How many files of runs a process writes at once: for one reader, and for all of them."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from runtally.errors import TooManyDownloads

# What a browser needs that does two things at once.
MOST_OF_ONE = 2
# Those of Parquet take some tens of megabytes each while they are written.
MOST_OF_ALL = 8


class Downloads:
    """One per process."""

    def __init__(self) -> None:
        self.under_way: Counter[str] = Counter()
        """How many of each reader."""

    @contextmanager
    def one_more(self, reader: str) -> Iterator[None]:
        """Count a download of this reader's until the block ends. Raises `TooManyDownloads`."""
        if self.under_way[reader] >= MOST_OF_ONE:
            raise TooManyDownloads(
                f"{MOST_OF_ONE} of your downloads are under way already: wait for one of them, or cancel it, and try again."
            )
        if self.under_way.total() >= MOST_OF_ALL:
            raise TooManyDownloads
        self.under_way[reader] += 1
        try:
            yield
        finally:
            self.under_way[reader] -= 1
            if not self.under_way[reader]:
                del self.under_way[reader]
