"""Calls whose records come in two requests."""

from typing import Any

import pytest

from runtally.models.run import Status
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


INNER: dict[str, Any] = {"scope": "inner", "start_ms": 1, "ms": 998}
OUTER: dict[str, Any] = {"scope": "outer", "start_ms": 0, "ms": 1000}


def test_a_span_above_a_stored_call_is_known_for_a_minute(recent: Recent, seconds: Seconds) -> None:
    calls = (brief(make_call(1)), brief(make_call(3, model="other")))
    recent.add([make_call(1)], [(("p", key_of(2)), calls[:1])])
    recent.add([make_call(3)], [(("p", key_of(2)), calls[1:])])

    assert recent.below("p", key_of(2)) == calls
    assert not recent.below("p", key_of(1))
    assert not recent.below("q", key_of(2))
    seconds.now = SECONDS
    assert not recent.below("p", key_of(2))


def test_a_later_record_around_a_stored_call_is_taken_by_it(recent: Recent) -> None:
    recent.add([make_call(1, **INNER)], [])

    assert recent.takes(make_call(2, **OUTER))


def test_a_record_within_a_stored_call_is_taken_by_it(recent: Recent) -> None:
    recent.add([make_call(1, **OUTER)], [])

    assert recent.takes(make_call(2, **INNER))
    assert not recent.takes(make_call(3, **INNER))


def test_the_counts_of_a_record_within_a_stored_call_that_has_none_are_kept(recent: Recent) -> None:
    outer = make_call(1, **OUTER)
    del outer.facts["input"], outer.facts["output"]
    recent.add([outer], [])

    assert not recent.takes(make_call(2, **INNER))


def test_it_is_taken_again_when_it_is_sent_again(recent: Recent) -> None:
    recent.add([make_call(1, **INNER)], [])
    outer = make_call(2, **OUTER)

    assert recent.takes(outer)
    assert recent.takes(outer)


def test_a_stored_call_takes_one(recent: Recent) -> None:
    recent.add([make_call(1, **INNER)], [])

    assert recent.takes(make_call(2, **OUTER))
    assert not recent.takes(make_call(3, **OUTER))


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
    recent.add([make_call(1, **INNER)], [])

    assert not recent.takes(make_call(2, **(OUTER | other)))


def test_the_same_request_sent_again_takes_nothing(recent: Recent) -> None:
    calls = [make_call(number, scope="inner") for number in range(1, 5)]
    recent.add(calls, [])

    assert not any(recent.takes(call) for call in calls)


def test_a_taken_record_is_taken_again_when_the_call_itself_is_no_longer_remembered(
    recent: Recent, seconds: Seconds
) -> None:
    recent.add([make_call(1, **INNER)], [])
    seconds.now = SECONDS / 2
    assert recent.takes(make_call(2, **OUTER))
    seconds.now = SECONDS
    recent.add([], [])

    assert recent.takes(make_call(2, **OUTER))


def test_after_a_minute_nothing_is_left(recent: Recent, seconds: Seconds) -> None:
    recent.add([make_call(1, **INNER)], [(("p", key_of(9)), (brief(make_call(1)),))])
    seconds.now = SECONDS
    recent.add([], [])

    assert not recent.takes(make_call(2, **OUTER))
    assert not recent._calls  # noqa: SLF001  # What is not there cannot be seen from outside.
    assert not recent._scopes  # noqa: SLF001  # As above.
    assert not recent._above.kept  # noqa: SLF001  # As above.


def test_only_so_many_are_kept(recent: Recent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtally.otlp.recent.MAX_CALLS", 50)
    for first in range(1, 200, 20):
        numbers = range(first, first + 20)
        recent.add(
            [make_call(number) for number in numbers],
            [(("p", key_of(number)), (brief(make_call(1)),)) for number in numbers],
        )
    recent.add([], [])

    assert len(recent._entries) == 50  # noqa: SLF001  # As above.
    assert len(recent._above.kept) == 50  # noqa: SLF001  # As above.
    assert sum(len(queue) for scopes in recent._calls.values() for queue in scopes.values()) == 50  # noqa: SLF001  # As above.
