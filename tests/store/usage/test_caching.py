"""What caches did is what the runs say, and what was written for nothing is counted by model and day."""

from collections import defaultdict
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest

from runtally.db.database import Connection, Database
from runtally.models.run import StoredRun
from runtally.usage.caching import read_cache_by, read_cache_use
from runtally.usage.dimensions import dimension_of_key
from runtally.usage.memo import DayMemo
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.window import Range, Window
from tests.store.usage.made import NOW, insert, made

WINDOW = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)


def reader_of(connection: Connection, project_id: str) -> UsageReader:
    return UsageReader.of_page(Snapshots.of(connection, DayMemo(2**20)), WINDOW, project_id)


@pytest.fixture
async def runs(own: Database, project_id: str) -> list[StoredRun]:
    rng = Random(9)  # noqa: S311  # Made-up runs are no secret.
    found = []
    for number in range(200):
        run = made(project_id, f"run-{number:03}", timedelta(minutes=rng.randint(1, 8 * 24 * 60)))
        run.model = rng.choice(["large", "small"])
        run.input_tokens = 1_000
        run.cached_input_tokens, run.cache_write_tokens = rng.choice([(0, 900), (800, 0), (0, 0), (100, 700)])
        run.cache_savings_usd = Decimal(rng.randint(-500, 900)) / 1_000_000
        run.metadata = {"feature": rng.choice(["search", "chat"])}
        found.append(run)
    await insert(own, found)
    return [run for run in found if WINDOW.start <= run.occurred_at < WINDOW.until]


async def test_tokens_and_savings_are_those_of_the_runs_to_the_last_digit(
    own: Database, runs: list[StoredRun], project_id: str
) -> None:
    async with own.snapshot() as connection:
        use = await read_cache_use(reader_of(connection, project_id), WINDOW)
        by_feature = await read_cache_by(reader_of(connection, project_id), WINDOW, dimension_of_key("feature"))

    for name, value_of, groups in (
        ("model", lambda run: ("acme", run.model), use.models),
        (
            "feature",
            lambda run: ((run.metadata or {})["feature"],),
            {k: v.totals for k, v in by_feature.groups.items()},
        ),
    ):
        assert set(groups) == {value_of(run) for run in runs}, name
        for group, totals in groups.items():
            same = [run for run in runs if value_of(run) == group]
            assert totals.input_tokens == sum(run.input_tokens or 0 for run in same)
            assert totals.cached_input_tokens == sum(run.cached_input_tokens or 0 for run in same)
            assert totals.cache_write_tokens == sum(run.cache_write_tokens or 0 for run in same)
            assert totals.cache_savings_usd == sum((run.cache_savings_usd or Decimal(0) for run in same), Decimal(0))


async def test_never_read_is_what_a_model_wrote_on_a_day_beyond_what_it_read(
    own: Database, runs: list[StoredRun], project_id: str
) -> None:
    left = defaultdict[tuple[str, object], int](int)
    for run in runs:
        left[run.model, run.occurred_at.date()] += (run.cache_write_tokens or 0) - (run.cached_input_tokens or 0)

    async with own.snapshot() as connection:
        use = await read_cache_use(reader_of(connection, project_id), WINDOW)

    for model in ("large", "small"):
        wanted = sum(max(0, tokens) for (name, _), tokens in left.items() if name == model)
        assert use.unread["acme", model] == wanted
    assert sum(use.unread.values()) > max(0, sum(left.values()))
