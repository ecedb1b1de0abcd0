"""The limiter decides what the store would, and asks it less often."""

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from runtally.db import batcher
from runtally.db.database import Database
from runtally.errors import RuntallyError, StoreBusy, StoreUnavailable
from runtally.limits import limiter as module
from runtally.limits.limiter import Limiter
from runtally.limits.rate import Decision, Grant, Rate
from tests.limits import Clock, PlainStore

SECOND = 1_000_000_000
TEN = Rate(10)


def limiter_of(clock: Clock) -> tuple[Limiter, PlainStore]:
    store = PlainStore(clock)
    return Limiter(store, clock), store


async def passes(limiter: Limiter, key: str = "k", times: int = 1) -> list[bool]:
    return [(await limiter.take(key, TEN)).granted for _ in range(times)]


async def test_as_many_as_the_limit_pass_at_once_and_one_more_does_not() -> None:
    limiter, _ = limiter_of(Clock())

    assert await passes(limiter, times=11) == [True] * 10 + [False]


async def test_one_more_passes_after_each_interval_and_not_before() -> None:
    clock = Clock()
    limiter, _ = limiter_of(clock)
    await passes(limiter, times=10)

    clock.now_ns += 6 * SECOND - 1
    too_early = await passes(limiter)
    clock.now_ns += 1

    assert too_early == [False]
    assert await passes(limiter, times=2) == [True, False]


async def test_requests_that_arrive_together_are_asked_about_together() -> None:
    limiter, store = limiter_of(Clock())

    decisions = await asyncio.gather(*(limiter.take(f"k{number % 2}", TEN) for number in range(24)))

    assert store.asked == [{"k0": 12, "k1": 12}]
    assert [decision.granted for decision in decisions] == [True] * 20 + [False] * 4
    assert [decision.remaining for decision in decisions[::2]] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0]


async def test_requests_that_arrive_while_the_store_is_asked_go_next() -> None:
    limiter, store = limiter_of(Clock())
    first = asyncio.create_task(limiter.take("k", TEN))
    await store.is_asked.wait()

    await asyncio.gather(limiter.take("k", TEN), limiter.take("k", TEN), first)

    assert store.asked == [{"k": 1}, {"k": 2}]


async def test_requests_are_refused_while_the_store_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    limiter, store = limiter_of(Clock())
    first = asyncio.create_task(limiter.take("k", TEN))
    await store.is_asked.wait()

    monkeypatch.setattr(batcher, "STUCK_SECONDS", -1.0)
    with pytest.raises(StoreBusy):
        await limiter.take("k", TEN)

    assert (await first).granted
    assert await passes(limiter) == [True]


async def test_a_key_that_is_used_up_costs_nothing_until_its_next_slot() -> None:
    clock = Clock()
    limiter, store = limiter_of(clock)
    await passes(limiter, times=10)
    asked = len(store.asked)

    clock.now_ns += 2 * SECOND
    refused = [await limiter.take("k", TEN) for _ in range(50)]

    assert len(store.asked) == asked
    assert set(refused) == {Decision(TEN, granted=False, busy_ns=58 * SECOND)}
    assert refused[0].retry_after_seconds == 4


async def test_keys_and_rates_do_not_touch_each_other() -> None:
    limiter, _ = limiter_of(Clock())
    await passes(limiter, "one", times=10)

    assert await passes(limiter, "another") == [True]
    assert (await limiter.take("third", Rate(1))).granted


async def test_a_store_that_is_away_fails_only_the_requests_that_asked() -> None:
    limiter, store = limiter_of(Clock())
    store.error = StoreUnavailable()

    results = await asyncio.gather(*(limiter.take("k", TEN) for _ in range(3)), return_exceptions=True)
    store.error = None

    assert [type(result) for result in results] == [StoreUnavailable] * 3
    assert await passes(limiter) == [True]


async def test_a_bug_of_the_store_is_an_internal_error_that_tells_nothing() -> None:
    limiter, store = limiter_of(Clock())
    store.error = ZeroDivisionError("secret-detail")

    with capture_logs() as logged, pytest.raises(RuntallyError) as raised:
        await limiter.take("k", TEN)

    assert raised.value.code == "internal_error"
    assert "secret-detail" not in str(raised.value)
    assert [(one["event"], one["log_level"], one["error"]) for one in logged] == [
        ("limits_failed", "error", "ZeroDivisionError")
    ]
    assert logged[0]["exc_info"] is store.error


async def test_a_store_that_is_away_is_no_bug_to_log_and_its_message_is_passed_on() -> None:
    limiter, store = limiter_of(Clock())
    store.error = StoreUnavailable("The store is away.")

    with capture_logs() as logged, pytest.raises(StoreUnavailable, match="The store is away"):
        await limiter.take("k", TEN)

    assert logged == []


async def test_a_refusal_needs_no_store_while_it_is_certain_and_not_longer() -> None:
    clock = Clock()
    limiter, _ = limiter_of(clock)
    assert limiter.refusal("k", TEN) is None
    await passes(limiter, times=10)

    assert limiter.refusal("k", TEN) == Decision(TEN, granted=False, busy_ns=60 * SECOND)
    clock.now_ns += 6 * SECOND - 1
    assert limiter.refusal("k", TEN) == Decision(TEN, granted=False, busy_ns=54 * SECOND + 1)
    clock.now_ns += 1
    assert limiter.refusal("k", TEN) is None


async def test_a_refusal_that_is_certain_no_more_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 1)
    clock = Clock()
    limiter, _ = limiter_of(clock)
    await passes(limiter, "first", times=10)

    # One more of the first could pass, though it is far from free of what it used.
    clock.now_ns += 7 * SECOND
    await passes(limiter, "second", times=10)

    assert limiter.refusal("second", TEN) is not None
    assert limiter.refusal("first", TEN) is None


async def test_the_last_question_is_answered_before_the_limiter_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = list[Mapping[str, Grant]]()

    class Store(PlainStore):
        async def take(self, rate: Rate, wanted: Mapping[str, int]) -> Mapping[str, Grant]:
            answered.append(await super().take(rate, wanted))
            return answered[-1]

    store = Store(Clock())
    monkeypatch.setattr(module, "LimitStore", lambda _: store)

    async with Limiter.opened(cast("Database", object())) as limiter:
        asking = asyncio.create_task(limiter.take("k", TEN))
        await store.is_asked.wait()

    assert len(answered) == 1
    assert (await asking).granted


def test_ten_thousand_keys_are_remembered() -> None:
    assert module.MAX_REMEMBERED == 10_000


async def test_a_client_that_leaves_does_not_disturb_the_others() -> None:
    limiter, _ = limiter_of(Clock())
    asking = [asyncio.create_task(limiter.take("k", TEN)) for _ in range(3)]
    await asyncio.sleep(0)

    asking[0].cancel()
    results = await asyncio.gather(*asking, return_exceptions=True)

    assert isinstance(results[0], asyncio.CancelledError)
    assert [result.granted for result in results if isinstance(result, Decision)] == [True, True]


async def test_the_number_of_remembered_refusals_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    clock = Clock()
    limiter, store = limiter_of(clock)
    one = Rate(1)

    async def known(key: str) -> bool:
        await limiter.take(key, one)
        asked = len(store.asked)
        assert not (await limiter.take(key, one)).granted
        return len(store.asked) == asked

    assert [await known(key) for key in ("a", "b", "c")] == [True, True, False]
    clock.now_ns += 60 * SECOND
    assert await known("d")


@given(st.lists(st.tuples(st.integers(0, 9 * SECOND), st.integers(1, 5)), max_size=60))
async def test_it_decides_as_the_store_alone_would(arrivals: list[tuple[int, int]]) -> None:
    clock = Clock()
    limiter, _ = limiter_of(clock)
    alone = PlainStore(clock)

    for pause, number in arrivals:
        clock.now_ns += pause
        decisions = await asyncio.gather(*(limiter.take("k", TEN) for _ in range(number)))
        grant = (await alone.take(TEN, {"k": number}))["k"]

        assert sum(decision.granted for decision in decisions) == grant.granted
        assert decisions[-1].busy_ns == grant.busy_ns
