"""Limit how many files of runs a process writes at once: per reader, and in total."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from runtally.errors import TooManyDownloads

# A browser may download two files at once.
MOST_OF_ONE = 2
# A Parquet file takes some tens of megabytes of memory while it is written.
MOST_OF_ALL = 8


class Downloads:
    """Counts downloads that are under way; one per process."""

    def __init__(self) -> None:
        self.under_way: Counter[str] = Counter()
        """Downloads under way, by reader."""

    @contextmanager
    def one_more(self, reader: str) -> Iterator[None]:
        """Count a download of this reader until the block ends. Raises `TooManyDownloads`."""
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
