"""One call that several instrumentations saw."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from runtally.models.run import Status
from runtally.otlp.calls import Call, fill
from runtally.otlp.twins import keep_one_of_each
from runtally.otlp.values import Resource
from tests.unit.otlp.factories import make_call


def kept(*calls: Call) -> list[int]:
    return [int.from_bytes(call.key[16:], "big") for call in keep_one_of_each(calls)]


def seen_twice(number: int, start_ms: float = 0, **facts: Any) -> Sequence[Call]:  # noqa: ANN401  # What is known of the call.
    """A call by the library itself, and by an instrumentation around it."""
    return (
        make_call(number, scope="inner", start_ms=start_ms + 1, ms=998, **facts),
        make_call(number + 1, scope="outer", start_ms=start_ms, ms=1000, **facts),
    )


def test_of_two_records_of_one_call_the_inner_one_stays() -> None:
    assert kept(*seen_twice(1)) == [1]
    assert kept(*reversed(seen_twice(1))) == [1]


def test_a_kept_twin_is_filled_from_the_other() -> None:
    inner, outer = seen_twice(1)
    outer.facts |= {"cost": 5, "session": "s", "output": 51}

    (call,) = keep_one_of_each([inner, outer])

    assert call.facts | {"cost": 5, "session": "s", "output": 50} == call.facts


def test_a_twin_without_tokens_gets_those_of_the_other() -> None:
    inner, outer = seen_twice(1)
    del inner.facts["input"], inner.facts["output"]
    outer.facts |= {"cached": 7}

    (call,) = keep_one_of_each([inner, outer])

    assert call.facts | {"input": 100, "output": 50, "cached": 7} == call.facts


def test_equal_calls_within_each_other_stay_two() -> None:
    calls = [
        make_call(number, scope=scope, start_ms=-number, ms=100 + 2 * number)
        for number, scope in enumerate(("inner", "outer", "inner", "outer"), start=1)
    ]

    assert kept(*calls) == [1, 3]


def test_a_call_that_has_taken_in_one_around_it_takes_no_other_of_its_scope() -> None:
    inner, around, other = (
        make_call(1, scope="inner", start_ms=1, ms=98),
        make_call(2, scope="outer", start_ms=0, ms=100),
        make_call(3, scope="outer", start_ms=10, ms=50),
    )
    fill(inner, around, is_same=True)

    assert kept(inner, other) == [1, 3]


def test_a_name_with_the_number_of_a_build_is_the_same_model() -> None:
    inner, outer = (
        make_call(1, scope="inner", model="gemini-2.5-pro-001"),
        make_call(2, scope="outer", model="gemini-2.5-pro"),
    )

    assert kept(inner, outer) == [1]


PARTS = {"cached": 70, "reasoning": 20}


@pytest.mark.parametrize(
    ("own", "others", "expected"),
    [
        pytest.param({}, PARTS, PARTS, id="none"),
        pytest.param({"cached": 0}, PARTS, PARTS, id="a zero"),
        pytest.param({"cached": 60}, PARTS, PARTS, id="less"),
        pytest.param(PARTS, {"cached": 60}, PARTS, id="more"),
        pytest.param({"written": 9}, PARTS, {"written": 9}, id="others"),
        pytest.param({}, {**PARTS, "output": 51}, {}, id="other sums"),
    ],
)
def test_the_parts_of_equal_counts_are_those_of_the_record_that_tells_more(
    own: dict[str, int], others: dict[str, int], expected: dict[str, int]
) -> None:
    inner, outer = seen_twice(1)
    inner.facts |= own
    outer.facts |= others

    (call,) = keep_one_of_each([inner, outer])

    assert {name: call.facts.get(name) for name in ("cached", "written", "reasoning")} == {
        "cached": None, "written": None, "reasoning": None, **expected,
    }  # fmt: skip


def test_the_tier_that_only_one_record_tells_is_the_runs() -> None:
    inner, outer = seen_twice(1)
    outer.facts |= {"tier": "flex", "region": "us"}

    (call,) = keep_one_of_each([inner, outer])

    assert (call.facts["tier"], call.facts["region"]) == ("flex", "us")


@pytest.mark.parametrize(
    ("start_ms", "ms"),
    [
        pytest.param(-1.05, 31.7, id="it encloses the other but for the end"),
        pytest.param(-0.17, 29.8, id="it is shorter, and begins first"),
    ],
)
def test_a_streamed_call_that_langfuse_ends_before_the_instrumentation_around_it_is_one(
    start_ms: float, ms: float
) -> None:
    langfuse = make_call(1, scope="langfuse-sdk", start_ms=start_ms, ms=ms, session="s")
    other = make_call(2, scope="openinference.instrumentation.openai", start_ms=0, ms=31.1)

    (call,) = keep_one_of_each([langfuse, other])

    assert call.facts["session"] == "s"


def test_calls_one_after_the_other_through_langfuse_are_one_each() -> None:
    records = [
        make_call(2 * number + place, scope=scope, start_ms=32 * number + start_ms, ms=ms, input=100 + number % 2)
        for number in range(6)
        for place, (scope, start_ms, ms) in enumerate((("langfuse-sdk", -1.05, 31.7), ("other", 0, 31.1)))
    ]

    assert len(keep_one_of_each(records)) == 6


def test_a_record_of_another_call_than_langfuses_stays() -> None:
    langfuse = make_call(1, scope="langfuse-sdk", start_ms=0, ms=30)

    assert len(keep_one_of_each([langfuse, make_call(2, scope="other", start_ms=6, ms=34)])) == 2
    # Of others a tenth of a millisecond is the most, or as many milliseconds at the end where their input is the same.
    first = make_call(1, scope="a", start_ms=0, ms=30)
    assert len(keep_one_of_each([first, make_call(2, start_ms=1, ms=29.5, scope="b", input=None)])) == 2
    assert len(keep_one_of_each([first, make_call(2, start_ms=1, ms=29.5, scope="b")])) == 1
    assert len(keep_one_of_each([first, make_call(2, start_ms=1, ms=34.5, scope="b")])) == 2


def test_short_calls_one_after_the_other_with_the_same_input_are_two() -> None:
    assert kept(make_call(1, scope="a", start_ms=0, ms=3), make_call(2, scope="b", start_ms=3.2, ms=3)) == [1, 2]


def test_three_records_of_one_call_are_one() -> None:
    calls = [*seen_twice(1), make_call(3, scope="outermost", start_ms=-1, ms=1002, session="s")]

    (call,) = keep_one_of_each(calls)

    assert (call.run_id, call.facts["session"]) == ("run-1", "s")


def test_equal_calls_of_one_scope_are_not_one() -> None:
    assert kept(*(make_call(number) for number in range(1, 21))) == list(range(1, 21))


def test_parallel_equal_calls_seen_twice_are_as_many_as_there_were() -> None:
    calls = [call for number in range(1, 41, 2) for call in seen_twice(number, start_ms=number / 100)]

    assert kept(*calls) == list(range(1, 41, 2))


def test_calls_one_after_the_other_seen_twice_are_as_many_as_there_were() -> None:
    calls = [call for number in range(1, 41, 2) for call in seen_twice(number, start_ms=number * 1000)]

    assert kept(*calls) == list(range(1, 41, 2))


DIFFERENT = {
    "another model": {"model": "other"},
    "other input": {"input": 101},
    "much other output": {"output": 59},
}


@pytest.mark.parametrize("facts", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_records_that_contradict_each_other_are_two_calls(facts: dict[str, Any]) -> None:
    inner, outer = seen_twice(1)
    outer.facts |= facts

    assert kept(inner, outer) == [1, 2]


ALIKE: dict[str, dict[str, Any]] = {
    "the response's model": {"model": "m-2024-07-18", "response_model": "m"},
    "the model with its provider": {"model": "openai/M"},
    "8 tokens more": {"output": 58},
    "unknown input": {"input": None},
    "unknown output": {"output": None},
}


@pytest.mark.parametrize("facts", ALIKE.values(), ids=ALIKE.keys())
@pytest.mark.parametrize("which", [0, 1])
def test_records_that_agree_are_one_call(facts: dict[str, Any], which: int) -> None:
    calls = seen_twice(1)
    known = calls[which].facts
    known |= facts
    for name in ("input", "output"):
        if known[name] is None:
            del known[name]

    assert kept(*calls) == [1]


@pytest.mark.parametrize(("output", "stays"), [(1020, [1]), (1021, [1, 2])])
def test_two_counts_of_a_long_output_may_differ_by_two_in_a_hundred(output: int, stays: list[int]) -> None:
    inner, outer = seen_twice(1, output=1000)
    outer.facts["output"] = output

    assert kept(inner, outer) == stays


def test_a_call_that_failed_is_no_twin_of_one_that_did_not() -> None:
    inner, outer = seen_twice(1)
    outer.status = Status.ERROR

    assert kept(inner, outer) == [1, 2]
    inner.status = Status.TIMEOUT
    assert kept(inner, outer) == [1]


def test_records_of_other_processes_and_projects_are_other_calls() -> None:
    inner, outer = seen_twice(1)
    outer.resource = Resource({}, b"another")
    other_inner, other_outer = seen_twice(3)
    other_outer.project_id = "another"

    assert kept(inner, outer, other_inner, other_outer) == [1, 2, 3, 4]


@pytest.mark.parametrize(("late_ms", "stays"), [(0.05, [1]), (0.2, [1, 2])])
def test_clocks_may_differ_by_a_tenth_of_a_millisecond(late_ms: float, stays: list[int]) -> None:
    inner = make_call(1, scope="inner", start_ms=0, ms=900)
    outer = make_call(2, scope="outer", start_ms=late_ms, ms=1000)

    assert kept(inner, outer) == stays


def test_calls_without_times_are_left_alone() -> None:
    inner, outer = seen_twice(1)
    inner.start = inner.end = 0

    assert kept(inner, outer) == [1, 2]


def test_equal_spans_in_great_number_take_a_time_that_grows_with_their_number() -> None:
    def seconds(number: int, scopes: int) -> float:
        calls = [make_call(each, scope=str(each % scopes), ms=1000 + each % 3) for each in range(1, number + 1)]
        started = time.process_time()
        keep_one_of_each(calls)
        return time.process_time() - started

    for scopes in (2, 100_000):
        # Eight times as many: a square would be 64 times as long.
        assert seconds(16_000, scopes) < 30 * max(seconds(2_000, scopes), 0.01)
