"""Lists of sessions and traces come to what their runs add up to, in the order asked for, or say what they leave out."""

from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest

from runtally.db.database import Database
from runtally.models.run import Status, StoredRun
from runtally.runs import run_groups
from runtally.runs.run_groups import (
    GroupKind,
    GroupNames,
    GroupPage,
    GroupSort,
    ListQuestion,
    RunGroup,
    read_run_groups,
)
from runtally.usage.timeline import TimeSpan
from runtally.usage.upkeep.dimensions import merge_dimensions
from tests.serving import Postgres
from tests.store.usage.made import NOW, insert

PROJECT, OTHER_PROJECT = "run-groups", "run-groups-other"
SPAN = TimeSpan(NOW - timedelta(days=10), NOW)


def _made_up(number: int, rng: Random) -> StoredRun:
    return StoredRun(
        project_id=rng.choice([PROJECT, PROJECT, OTHER_PROJECT]),
        id=f"run-{number:04}",
        occurred_at=NOW - timedelta(minutes=rng.randint(1, 14 * 24 * 60)),
        provider="acme",
        model=rng.choice(["large", "small", "tiny"]),
        status=rng.choice([Status.SUCCESS, Status.SUCCESS, Status.SUCCESS, Status.ERROR, Status.TIMEOUT]),
        input_tokens=10,
        latency_ms=rng.choice([None, 90, 1_234, 600_000]),
        cost_usd=rng.choice([None, Decimal("0.000001"), Decimal("1.25"), Decimal(rng.randint(1, 999)) / 1000]),
        session_id=rng.choice([None, "", *(f"session-{one}" for one in range(70))]),
        trace_id=rng.choice([None, *(f"trace-{one}" for one in range(90))]),
        user_id=rng.choice([None, "ann", "bob", "cem"]),
        created_at=NOW,
        version=1,
    )


@pytest.fixture(scope="module")
async def database(postgres: Postgres) -> AsyncIterator[Database]:
    """Of the module's own: a service over the shared one would merge at the same time, and keep it from merging all."""
    async with Database(postgres.create_seeded("run_groups")) as database:
        yield database


@pytest.fixture(scope="module")
async def runs(database: Database) -> list[StoredRun]:
    rng = Random(11)  # noqa: S311  # Made-up runs are no secret.
    made = [_made_up(number, rng) for number in range(900)]
    await insert(database, made)
    await merge_dimensions(database, NOW, everything=True)
    return made


def expected(runs: list[StoredRun], kind: GroupKind, span: TimeSpan = SPAN) -> dict[str, RunGroup]:
    groups = defaultdict[str, list[StoredRun]](list)
    for run in runs:
        id_ = run.session_id if kind is GroupKind.SESSION else run.trace_id
        if run.project_id == PROJECT and id_ and span.since <= run.occurred_at < span.until:
            groups[id_].append(run)
    return {id_: _group(id_, found) for id_, found in groups.items()}


def _group(id_: str, runs: list[StoredRun]) -> RunGroup:
    first = min(run.occurred_at for run in runs)
    ends = max(run.occurred_at + timedelta(milliseconds=run.latency_ms or 0) for run in runs)
    users, models = sorted({run.user_id for run in runs if run.user_id}), sorted({run.model for run in runs})
    return RunGroup(
        id_,
        runs=len(runs),
        failed=sum(run.status is not Status.SUCCESS for run in runs),
        unpriced=sum(run.cost_usd is None for run in runs),
        cost_usd=sum((run.cost_usd or Decimal(0) for run in runs), Decimal(0)),
        first_at=first,
        last_at=max(run.occurred_at for run in runs),
        duration_ms=(ends - first) // timedelta(milliseconds=1),
        users=GroupNames(len(users), tuple(users[:2])),
        models=GroupNames(len(models), tuple(models[:2])),
    )


async def ask(database: Database, question: ListQuestion) -> GroupPage:
    async with database.snapshot() as connection:
        return await read_run_groups(connection, question, NOW)


async def all_pages(database: Database, question: ListQuestion) -> list[GroupPage]:
    pages = [await ask(database, question)]
    while pages[-1].has_more:
        number = len(pages) + 1
        pages.append(await ask(database, replace(question, page=number)))
    return pages


@pytest.mark.parametrize("kind", GroupKind)
@pytest.mark.parametrize("sort", GroupSort)
@pytest.mark.parametrize("is_ascending", [False, True])
async def test_the_pages_of_a_list_have_all_groups_once_in_their_order(
    database: Database, runs: list[StoredRun], kind: GroupKind, sort: GroupSort, *, is_ascending: bool
) -> None:
    wanted = expected(runs, kind)

    pages = await all_pages(database, ListQuestion(PROJECT, kind, SPAN, sort, is_ascending))

    found = [group for page in pages for group in page.groups]
    assert {group.id: group for group in found} == wanted
    assert len(found) == len(wanted) > 50
    values = [getattr(group, sort.value) for group in found]
    assert values == sorted(values, reverse=not is_ascending)
    assert all(page.count == len(wanted) and page.since is None for page in pages)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Pretend that the time has more runs than are added up at once."""
    monkeypatch.setattr(run_groups, "MAX_RUNS", 100)
    return 100


@pytest.mark.parametrize("sort", [GroupSort.COST, GroupSort.RUNS])
async def test_of_too_many_runs_sessions_are_ranked_by_their_sums(
    database: Database, runs: list[StoredRun], few: int, sort: GroupSort
) -> None:
    wanted = expected(runs, GroupKind.SESSION)

    pages = await all_pages(database, ListQuestion(PROJECT, GroupKind.SESSION, SPAN, sort))

    assert few < sum(group.runs or 0 for group in wanted.values())
    found = [group for page in pages for group in page.groups]
    assert {group.id: group for group in found} == wanted
    values = [getattr(group, sort.value) for group in found]
    assert values == sorted(values, reverse=True)
    assert not any(page.since or page.has_hidden for page in pages)


@pytest.mark.parametrize("kind", GroupKind)
async def test_of_too_many_runs_those_with_most_failures_are_found_by_these_alone(
    database: Database, runs: list[StoredRun], few: int, kind: GroupKind
) -> None:
    wanted = {id_: group for id_, group in expected(runs, kind).items() if group.failed}

    pages = await all_pages(database, ListQuestion(PROJECT, kind, SPAN, GroupSort.FAILED))

    found = [group for page in pages for group in page.groups]
    assert {group.id: group for group in found} == wanted
    assert [group.failed for group in found] == sorted((one.failed or 0 for one in wanted.values()), reverse=True)
    assert few


@pytest.mark.parametrize("kind", GroupKind)
async def test_of_too_many_runs_the_latest_are_read_from_the_newest_and_looked_up(
    database: Database, runs: list[StoredRun], few: int, kind: GroupKind
) -> None:
    wanted = expected(runs, kind)
    newest = sorted(wanted.values(), key=lambda group: group.last_at or NOW, reverse=True)

    pages = await all_pages(database, ListQuestion(PROJECT, kind, SPAN, GroupSort.LATEST))

    found = [group for page in pages for group in page.groups]
    assert few > len(found) > 10
    assert found == newest[: len(found)]
    # The last page says how far back the list goes.
    assert pages[-1].since
    assert all((group.last_at or NOW) < pages[-1].since for group in newest[len(found) :])


@pytest.mark.parametrize("is_ascending", [False, True])
async def test_what_no_other_reading_tells_is_of_the_newest_runs_and_says_since_when(
    database: Database, runs: list[StoredRun], few: int, *, is_ascending: bool
) -> None:
    page = await ask(database, ListQuestion(PROJECT, GroupKind.TRACE, SPAN, GroupSort.DURATION, is_ascending))

    assert page.since is not None
    wanted = expected(runs, GroupKind.TRACE, TimeSpan(page.since, SPAN.until))
    assert page.count == len(wanted)
    assert sum(group.runs or 0 for group in wanted.values()) <= few + 1
    assert all(group == wanted[group.id] for group in page.groups)


async def test_a_session_with_very_many_runs_is_listed_without_what_would_have_to_be_looked_up(
    database: Database, runs: list[StoredRun], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert few
    monkeypatch.setattr(run_groups, "MAX_LOOKED_UP", 5)
    wanted = expected(runs, GroupKind.SESSION)

    page = await ask(database, ListQuestion(PROJECT, GroupKind.SESSION, SPAN, GroupSort.COST))

    large = [group for group in page.groups if group.models is None]
    assert 0 < len(large) < len(page.groups)
    for group in page.groups:
        whole = wanted[group.id]
        assert (group.runs, group.cost_usd, group.failed) == (whole.runs, whole.cost_usd, whole.failed)
        assert (group.models is None) == (group.last_at is None)


async def test_a_list_says_where_sessions_of_a_day_were_put_together(
    database: Database, runs: list[StoredRun], few: int
) -> None:
    assert runs
    assert few
    question = ListQuestion(PROJECT, GroupKind.SESSION, SPAN)
    async with database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(
            "UPDATE dimension_sums SET dimension_values[1] = NULL WHERE project_id = $1 AND detail = 'day'", PROJECT
        )
        page = await read_run_groups(connection, question, NOW)
        await transaction.rollback()

    assert page.has_hidden
