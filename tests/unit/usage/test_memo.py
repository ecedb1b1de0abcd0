"""What a process remembers of days that are over."""

import sys
from array import array
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from runtally.clock import DAY
from runtally.usage.dimensions import BY_MODEL
from runtally.usage.memo import LARGEST_SHARE, LONGEST_KEPT, DayMemo, size_of
from runtally.usage.plan import Question
from runtally.usage.window import Range, Window

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
VALUE = array("q", range(1_000))
SIZE = size_of(VALUE) + size_of("700")


async def test_a_value_is_read_once_while_no_day_changes() -> None:
    memo, reads = DayMemo(2**20), 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        return reads

    found = [
        await memo.get_or_read("question", version, NOW, read) for version in ("700", "700", "701", "701", None, None)
    ]

    assert found == [1, 1, 2, 2, 3, 4]


def test_a_value_is_read_again_after_a_while_whatever_happened() -> None:
    memo = DayMemo(2**20)
    memo.put("question", "700", NOW, VALUE)

    assert memo.get("question", "700", NOW + LONGEST_KEPT - timedelta(seconds=1)) is VALUE
    assert memo.get("question", "700", NOW + LONGEST_KEPT) is None
    assert memo.bytes == 0


def test_what_was_asked_for_the_longest_time_ago_goes_first() -> None:
    most = 2 * LARGEST_SHARE
    memo = DayMemo(most * SIZE)
    for number in range(most):
        memo.put(number, "700", NOW, VALUE)
        assert memo.get(0, "700", NOW) is VALUE

    memo.put("one more", "700", NOW, VALUE)

    assert memo.bytes == most * SIZE
    assert memo.get(1, "700", NOW) is None
    assert memo.get(0, "700", NOW) is VALUE


def test_what_would_drive_out_much_else_is_not_kept() -> None:
    memo = DayMemo(LARGEST_SHARE * SIZE - 1)
    memo.put("question", "700", NOW, VALUE)

    assert (memo.bytes, memo.get("question", "700", NOW)) == (0, None)


def test_the_size_of_a_value_is_that_of_all_it_is_made_of() -> None:
    amount = Decimal("1.5")

    assert size_of({"a": (amount, amount)}) == sum(map(sys.getsizeof, ({"a": 0}, "a", (amount, amount), amount)))
    assert size_of(VALUE) >= 8 * len(VALUE)


def test_values_are_kept_for_five_minutes_and_take_a_quarter_of_the_room_at_most() -> None:
    assert timedelta(minutes=5) == LONGEST_KEPT
    assert LARGEST_SHARE == 4
    memo = DayMemo(4 * SIZE)
    memo.put("question", "700", NOW, VALUE)

    assert memo.bytes == SIZE


def test_a_value_of_a_clock_that_was_ahead_is_read_again() -> None:
    memo = DayMemo(2**20)
    memo.put("question", "700", NOW, VALUE)

    assert memo.get("question", "700", NOW - timedelta(seconds=1)) is None


def test_a_value_that_is_put_again_counts_once() -> None:
    memo = DayMemo(2**20)
    memo.put("question", "700", NOW, VALUE)
    memo.put("question", "701", NOW, [1])

    assert memo.bytes == size_of([1]) + size_of("701")
    memo.put("question", None, NOW, VALUE)
    assert memo.get("question", "701", NOW) == [1]


def test_a_value_that_is_too_large_drives_out_what_was_known_of_the_question_alone() -> None:
    memo = DayMemo(LARGEST_SHARE * SIZE)
    memo.put("question", "700", NOW, VALUE)
    memo.put("another", "700", NOW, VALUE)
    memo.put("question", "701", NOW, [VALUE, VALUE[:]])

    assert memo.get("question", "701", NOW) is None
    assert (memo.bytes, memo.get("another", "700", NOW)) == (SIZE, VALUE)


def test_several_small_values_make_room_for_a_large_one() -> None:
    memo = DayMemo(LARGEST_SHARE * SIZE)
    for number in range(2 * LARGEST_SHARE):
        memo.put(number, "700", NOW, VALUE[:400])
    before = memo.bytes

    memo.put("large", "700", NOW, VALUE)

    assert before > (LARGEST_SHARE - 2) * SIZE
    assert memo.bytes <= LARGEST_SHARE * SIZE
    assert memo.get("large", "700", NOW) is VALUE


@dataclass
class _Pair:
    first: object
    second: object


def test_lists_and_records_are_counted_with_all_they_hold() -> None:
    one, other = "one text", [1.5, "other text"]
    parts = sys.getsizeof(one) + sys.getsizeof(other) + sys.getsizeof(1.5) + sys.getsizeof("other text")
    pair = _Pair(one, other)

    assert size_of(pair) == sys.getsizeof(pair) + parts
    assert size_of([one, other]) == sys.getsizeof([one, other]) + parts
    assert size_of([other, other]) == size_of([other]) + sys.getsizeof([1, 2]) - sys.getsizeof([1])
    assert size_of((None, timedelta(1))) == sum(map(sys.getsizeof, ((None, None), None, timedelta(1))))
    # A class is no value of its own.
    assert size_of(_Pair) == sys.getsizeof(_Pair)


def test_an_answer_is_remembered_whatever_the_moment_it_was_asked_for() -> None:
    windows = [Window.of(Range.WEEK, NOW + timedelta(seconds=seconds)) for seconds in (0, 20)]
    one, later = (Question(window, by=BY_MODEL, bars=window.in_buckets_of(DAY)) for window in windows)

    assert one != later
    assert one.as_remembered() == later.as_remembered()
    assert hash(one.as_remembered()) == hash(later.as_remembered())
    assert one.as_remembered() != replace(later, bars=None).as_remembered()
