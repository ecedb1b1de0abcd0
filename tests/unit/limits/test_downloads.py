"""Two downloads of each reader, and no more of all than a process has room for."""

from contextlib import ExitStack

import pytest

from runtally.errors import TooManyDownloads
from runtally.limits.downloads import Downloads


def test_a_reader_has_two_at_once_and_another_when_one_of_them_ends() -> None:
    downloads = Downloads()

    with downloads.one_more("ann"):
        with downloads.one_more("ann"):
            with pytest.raises(TooManyDownloads, match="2 of your downloads"), downloads.one_more("ann"):
                pass
            with downloads.one_more("bob"):
                pass
        with downloads.one_more("ann"):
            pass


def test_one_that_breaks_off_has_ended() -> None:
    downloads = Downloads()

    for _ in range(10):
        with pytest.raises(BrokenPipeError), downloads.one_more("ann"):
            raise BrokenPipeError

    assert not downloads.under_way


def test_all_together_have_eight() -> None:
    downloads = Downloads()

    with ExitStack() as stack:
        for number in range(8):
            stack.enter_context(downloads.one_more(f"reader {number}"))
        with pytest.raises(TooManyDownloads, match="as many files as it can"), downloads.one_more("ann"):
            pass
