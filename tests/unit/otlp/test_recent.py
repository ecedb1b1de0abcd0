"""Calls whose records come in two requests."""

import asyncio
from typing import Any

import pytest

from runtally.models.run import Status
from runtally.otlp.calls import Call
from runtally.otlp.nesting import brief
from runtally.otlp.recent import SECONDS, Recent
from tests.unit.otlp.factories import key_of, make_call


class Seconds:
    """A clock that a test sets forward."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def recent(seconds: Seconds) -> Recent:
    return Recent(seconds)


def store(recent: Recent, *calls: Call) -> None:
    recent.claim(calls).settle(calls)


def takes(recent: Recent, call: Call) -> bool:
    claim = recent.claim([call])
    claim.settle([call])
    return not claim.calls


INNER: dict[str, Any] = {"scope": "inner", "start_ms": 1, "ms": 998}
OUTER: dict[str, Any] = {"scope": "outer", "start_ms": 0, "ms": 1000}


def test_a_span_above_a_stored_call_is_known_for_a_minute(recent: Recent, seconds: Seconds) -> None:
    calls = (brief(make_call(1)), brief(make_call(3, model="other")))
    recent.add([(("p", key_of(2)), calls[:1])], {})
    recent.add([(("p", key_of(2)), calls[1:])], {})

    assert recent.below("p", key_of(2)) == calls
    assert not recent.below("p", key_of(1))
    assert not recent.below("q", key_of(2))
    seconds.now = SECONDS
    assert not recent.below("p", key_of(2))


def test_a_later_record_around_a_stored_call_is_taken_by_it(recent: Recent) -> None:
    store(recent, make_call(1, **INNER))

    assert takes(recent, make_call(2, **OUTER))


def test_a_record_within_a_stored_call_is_taken_by_it(recent: Recent) -> None:
    store(recent, make_call(1, **OUTER))

    assert takes(recent, make_call(2, **INNER))
    assert not takes(recent, make_call(3, **INNER))


@pytest.mark.parametrize(("above_first", "above_second"), [(2, 0), (0, 1)])
def test_the_record_next_above_or_below_is_taken_whatever_its_times(
    recent: Recent, above_first: int, above_second: int
) -> None:
    others = [make_call(number, scope="inner", start_ms=1, ms=45) for number in (3, 4)]
    store(recent, others[0], make_call(1, scope="inner", ms=30, parent=above_first), others[1])

    assert takes(recent, make_call(2, scope="outer", start_ms=1, ms=50, parent=above_second))
    assert takes(recent, make_call(5, scope="outer", start_ms=1, ms=46))
    assert takes(recent, make_call(6, scope="outer", start_ms=1, ms=46))


def test_the_counts_of_a_record_within_a_stored_call_that_has_none_are_kept(recent: Recent) -> None:
    outer = make_call(1, **OUTER)
    del outer.facts["input"], outer.facts["output"]
    store(recent, outer)

    assert not takes(recent, make_call(2, **INNER))


def test_it_is_taken_again_when_it_is_sent_again(recent: Recent) -> None:
    store(recent, make_call(1, **INNER))
    outer = make_call(2, **OUTER)

    assert takes(recent, outer)
    assert takes(recent, outer)


def test_a_stored_call_takes_one_of_each_scope(recent: Recent) -> None:
    store(recent, make_call(1, **INNER))

    assert takes(recent, make_call(2, **OUTER))
    assert not takes(recent, make_call(3, **OUTER))
    assert takes(recent, make_call(4, **{**OUTER, "scope": "outermost"}))


OTHERS: dict[str, dict[str, Any]] = {
    "the same scope": {"scope": "inner"},
    "another model": {"model": "other"},
    "other tokens": {"input": 5},
    "another project": {"project_id": "q"},
    "another ending": {"status": Status.ERROR},
    "another time": {"start_ms": 5000},
    "a time that neither encloses nor is enclosed": {"start_ms": 1.5, "ms": 1500},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_another_call_is_not(recent: Recent, other: dict[str, Any]) -> None:
    store(recent, make_call(1, **INNER))

    assert not takes(recent, make_call(2, **(OUTER | other)))


def test_the_same_request_sent_again_takes_nothing(recent: Recent) -> None:
    calls = [make_call(number, scope="inner") for number in range(1, 5)]
    store(recent, *calls)

    assert recent.claim(calls).calls == calls


async def test_a_record_that_comes_while_its_twin_is_being_stored_waits_for_it(recent: Recent) -> None:
    inner, outer = make_call(1, **INNER), make_call(2, **OUTER)
    first, second = recent.claim([inner]), recent.claim([outer])
    second.settle([])
    waiting = asyncio.create_task(second.given_back())
    await asyncio.sleep(0)
    assert not waiting.done()
    first.settle([inner])

    assert second.calls == []
    assert await waiting == []


async def test_it_is_given_back_when_its_twin_was_not_stored(recent: Recent) -> None:
    inner, outer = make_call(1, **INNER), make_call(2, **OUTER)
    first, second = recent.claim([inner]), recent.claim([outer])
    first.settle([])

    assert await second.given_back() == [outer]
    assert recent.claim([outer]).calls == [outer]


def test_a_taken_record_is_taken_again_when_the_call_itself_is_no_longer_remembered(
    recent: Recent, seconds: Seconds
) -> None:
    store(recent, make_call(1, **INNER))
    seconds.now = SECONDS / 2
    assert takes(recent, make_call(2, **OUTER))
    seconds.now = SECONDS
    recent.add([], {})

    assert takes(recent, make_call(2, **OUTER))


def test_after_a_minute_nothing_is_left(recent: Recent, seconds: Seconds) -> None:
    store(recent, make_call(1, **INNER))
    recent.add([(("p", key_of(9)), (brief(make_call(1)),))], {})
    seconds.now = SECONDS
    recent.add([], {})

    assert not recent._calls  # noqa: SLF001  # What is not there cannot be seen from outside.
    assert not recent._scopes  # noqa: SLF001  # As above.
    assert not recent._above.kept  # noqa: SLF001  # As above.
    assert not takes(recent, make_call(2, **OUTER))


def test_only_so_many_are_kept(recent: Recent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtally.otlp.recent.MAX_CALLS", 50)
    for first in range(1, 200, 20):
        numbers = range(first, first + 20)
        store(recent, *(make_call(number) for number in numbers))
        recent.add([(("p", key_of(number)), (brief(make_call(1)),)) for number in numbers], {})
    recent.add([], {})

    assert len(recent._entries) == 50  # noqa: SLF001  # As above.
    assert len(recent._above.kept) == 50  # noqa: SLF001  # As above.
    assert sum(len(queue) for scopes in recent._calls.values() for queue in scopes.values()) == 50  # noqa: SLF001  # As above.
