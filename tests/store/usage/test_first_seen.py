"""When the values of a tracked key were first seen, from the sums and from what waits to be added to them."""

from datetime import datetime, timedelta

import pytest

from runtally.db.database import Database
from runtally.usage import mark_queries
from runtally.usage.mark_queries import FirstSeen, select_first_seen
from runtally.usage.timeline import TimeSpan
from runtally.usage.upkeep.dimensions import merge_dimensions
from runtally.usage.upkeep.queries import expire_buckets
from tests.store.usage.made import NOW, insert, made

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
WEEK = TimeSpan(NOW - 7 * DAY, NOW)


async def send(database: Database, *releases: tuple[timedelta, str], project_id: str = "p") -> None:
    """Store a run of each release at each age."""
    runs = [made(project_id, f"{release}-{age}", age) for age, release in releases]
    for run, (_, release) in zip(runs, releases, strict=True):
        run.metadata = {"release": release}
    await insert(database, runs)


async def found(database: Database, span: TimeSpan = WEEK, key: str = "release") -> list[FirstSeen]:
    async with database.connection() as connection:
        return await select_first_seen(connection, "p", key, span)


def hour_of(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


@pytest.mark.parametrize("is_merged", [False, True], ids=["waiting", "merged"])
async def test_a_value_is_first_seen_in_the_hour_of_its_first_run(own: Database, is_merged: bool) -> None:
    await send(own, (9 * DAY, "v1"), (2 * DAY, "v1"), (2 * DAY, "v2"), (2 * DAY - 3 * HOUR, "v2"), (HOUR, "v3"))
    await send(own, (3 * DAY, "other"), project_id="q")
    if is_merged:
        await merge_dimensions(own, NOW, everything=True)

    assert await found(own) == [FirstSeen("v2", hour_of(NOW - 2 * DAY)), FirstSeen("v3", hour_of(NOW - HOUR))]


async def test_what_came_since_the_sums_counts_with_them(own: Database) -> None:
    await send(own, (9 * DAY, "v1"), (2 * DAY, "v2"))
    await merge_dimensions(own, NOW, everything=True)
    await send(own, (3 * DAY, "v2"), (HOUR, "v3"))

    assert await found(own) == [FirstSeen("v2", hour_of(NOW - 3 * DAY)), FirstSeen("v3", hour_of(NOW - HOUR))]


async def test_the_values_of_the_first_runs_of_all_are_not_new(own: Database) -> None:
    await send(own, (2 * DAY, "v1"), (DAY, "v2"))

    assert [value for value, _ in await found(own)] == ["v2"]


@pytest.mark.parametrize("is_merged", [False, True], ids=["waiting", "merged"])
async def test_a_value_that_was_seen_shortly_before_is_not_new(own: Database, is_merged: bool) -> None:
    await send(own, (60 * DAY, "back"), (40 * DAY, "v1"), (20 * DAY, "v2"), (DAY, "back"), (DAY, "v2"))
    if is_merged:
        await merge_dimensions(own, NOW, everything=True)

    assert [value for value, _ in await found(own)] == ["back"]


async def test_a_value_is_of_a_day_where_its_hours_are_no_longer_kept(own: Database) -> None:
    await send(own, (60 * DAY, "v1"), (50 * DAY, "v2"))
    await merge_dimensions(own, NOW, everything=True)
    await expire_buckets(own, NOW)

    [one] = await found(own, TimeSpan(NOW - 55 * DAY, NOW))

    assert one == FirstSeen("v2", (NOW - 50 * DAY).replace(hour=0, minute=0, second=0, microsecond=0))


@pytest.mark.parametrize("is_merged", [False, True], ids=["waiting", "merged"])
async def test_a_key_that_is_not_tracked_or_has_many_values_has_none(
    own: Database, monkeypatch: pytest.MonkeyPatch, is_merged: bool
) -> None:
    await send(own, (9 * DAY, "v1"), (2 * DAY, "v2"), (2 * DAY, "v3"))
    if is_merged:
        await merge_dimensions(own, NOW, everything=True)
    few = mark_queries.SELECT_FIRST_SEEN.replace(f"> {mark_queries.MAX_VALUES_A_DAY}", "> 1")
    assert few != mark_queries.SELECT_FIRST_SEEN

    assert len(await found(own)) == 2
    assert await found(own, key="none-such") == []
    monkeypatch.setattr(mark_queries, "SELECT_FIRST_SEEN", few)
    assert await found(own) == []
    await send(own, (3 * HOUR, "v4"), (HOUR, "v5"))
    assert await found(own) == []
