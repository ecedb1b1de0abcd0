"""The report of coding agents equals what its runs add up to, by each dimension that it groups them by."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from runtally.db.database import Database
from runtally.models.run import Status, StoredRun
from runtally.usage import agents
from runtally.usage.agents import (
    AGENT,
    LIST_PRICE,
    REPOSITORY,
    TABLES,
    TEAM,
    AgentReport,
    Purpose,
    purpose_of,
    read_agents,
)
from runtally.usage.dimensions import MODEL, NO_VALUE, USER
from runtally.usage.filter import RunFilter
from runtally.usage.groups import rows as group_rows
from runtally.usage.overview.project_queries import select_projects
from runtally.usage.reader import UsageReader
from runtally.usage.snapshots import Snapshots
from runtally.usage.totals import NO_RUNS, total_of
from runtally.usage.upkeep.dimensions import merge_dimensions
from runtally.usage.window import Range, Window
from tests.factories import examples
from tests.store.usage.made import NOW, clear, insert, made
from tests.summaries import new_memo

WEEK = Window.of(Range.WEEK, NOW, Range.WEEK.chart_interval)
names = st.none() | st.sampled_from(["a", "b", "c"])
runs = st.builds(
    StoredRun,
    version=st.just(1),
    project_id=st.sampled_from(["one", "two"]),
    id=st.uuids().map(str),
    occurred_at=st.timedeltas(timedelta(days=-9), timedelta(0)).map(lambda offset: NOW + offset),
    provider=st.just("acme"),
    model=st.sampled_from(["large", "small"]),
    status=st.sampled_from(Status),
    input_tokens=st.none() | st.integers(0, 10**9),
    cost_usd=st.none() | st.decimals(0, 10, places=12),
    user_id=names,
    session_id=names,
    metadata=st.fixed_dictionaries(
        {},
        optional={
            "agent": names,
            "repo": names,
            "team": names,
            "agentName": names,
            "querySource": st.sampled_from(["repl_main_thread", "agent:explorer", "compact"]),
            "role": st.sampled_from(["main", "utility_router"]),
            "attempt": st.integers(1, 3),
            "costBasis": st.just(LIST_PRICE),
        },
    ),
    created_at=st.just(NOW),
)


@pytest.mark.parametrize(
    ("said", "purpose"),
    [
        ((None, None, None, None), Purpose.WORK),
        ((None, "repl_main_thread", None, "1"), Purpose.WORK),
        (("explorer", "agent:explorer", None, None), Purpose.SUBAGENT),
        ((None, "agent:builtin", None, None), Purpose.SUBAGENT),
        ((None, None, "subagent", None), Purpose.SUBAGENT),
        ((None, "compact", None, None), Purpose.COMPACTION),
        ((None, None, "utility_router", None), Purpose.ROUTER),
        (("explorer", None, None, "2"), Purpose.RETRY),
        ((None, None, None, "many"), Purpose.WORK),
    ],
)
def test_what_an_agent_says_tells_what_a_call_was_for(said: tuple[str | None, ...], purpose: Purpose) -> None:
    assert purpose_of(*said) is purpose


@examples(5, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(sent=st.lists(runs, max_size=25), is_merged=st.booleans())
async def test_the_report_is_what_its_runs_come_to(own: Database, sent: list[StoredRun], is_merged: bool) -> None:
    await clear(own)
    if sent:
        await insert(own, sent)
    if is_merged:
        await merge_dimensions(own, NOW, everything=True)

    report = await read(own)

    kept = [run for run in sent if run.project_id == "one" and WEEK.start <= run.occurred_at < WEEK.until]
    assert report.total.runs == len(kept)
    assert report.total.cost_usd == cost_of(kept)
    for dimension in TABLES:
        summary = report.tables[dimension]
        assert summary is not None
        assert summary.total == report.total
        assert total_of(summary.slices.values()) == report.total
    details = report.details
    assert details is not None
    assert total_of(details.purposes.values()) == report.total
    by_session = defaultdict(list)
    for run in kept:
        by_session[run.session_id].append(run)
    without = by_session.pop(None, [])
    assert {one.id: one.total.cost_usd for one in details.sessions.values()} == {
        id_: cost_of(of_session) for id_, of_session in by_session.items()
    }
    assert total_of(one.total for one in details.sessions.values()).runs + len(without) == len(kept)
    assert details.session_counts == {
        (dimension, value): len(
            {run.session_id for run in kept if run.session_id and value_of(run, dimension) == value}
        )
        for dimension in TABLES
        for value in {value_of(run, dimension) for run in kept if run.session_id}
    }
    on_a_plan = [run for run in kept if (run.metadata or {}).get("costBasis") == LIST_PRICE]
    assert details.at_list_price.get(None, NO_RUNS).cost_usd == cost_of(on_a_plan)
    for session in details.sessions.values():
        assert total_of(session.subagents.values()).runs == sum(
            purpose_of_run(run) is Purpose.SUBAGENT for run in by_session[session.id]
        )


async def test_of_too_many_runs_the_report_has_only_stored_sums(own: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await clear(own)
    await insert(own, [made("one", f"run-{number}", timedelta(days=2)) for number in range(4)])
    await merge_dimensions(own, NOW, everything=True)
    monkeypatch.setattr(group_rows, "MAX_RUNS_READ", 3)

    report = await read(own)
    assert report.details is None
    assert report.total.runs == 4
    assert {one: summary is not None for one, summary in report.tables.items()} == dict.fromkeys(TABLES, True)


@pytest.mark.parametrize(("sessions", "has_details"), [(3, True), (4, False)])
async def test_of_too_many_groups_the_report_has_only_stored_sums(
    own: Database, monkeypatch: pytest.MonkeyPatch, sessions: int, has_details: bool
) -> None:
    await clear(own)
    for number in range(6):
        run = made("one", f"run-{number}", timedelta(days=2))
        run.session_id = f"session-{number % sessions}"
        await insert(own, [run])
    await merge_dimensions(own, NOW, everything=True)
    monkeypatch.setattr(agents, "MAX_GROUPS", 3)

    report = await read(own)

    assert report.total.runs == 6
    assert (report.details is not None) is has_details
    if report.details:
        assert {one.total.runs for one in report.details.sessions.values()} == {2}


async def test_a_project_has_agents_when_any_of_its_runs_names_one(own: Database) -> None:
    await clear(own)
    of_agent = made("two", "of-agent", timedelta(days=20))
    of_agent.metadata = {"agent": "codex"}
    await insert(own, [made("one", "plain"), made("two", "plain"), of_agent])
    await merge_dimensions(own, NOW, everything=True)

    async with own.snapshot() as connection:
        found = [one for name in ("one", "two") for one in await select_projects(connection, name)]
    assert {one.id: one.has_agents for one in found} == {"one": False, "two": True}


async def read(database: Database) -> AgentReport:
    async with database.snapshot() as connection:
        reader = UsageReader.of_page(Snapshots.of(connection, new_memo()), WEEK, "one")
        return await read_agents(reader, WEEK, RunFilter(project_id="one"))


def cost_of(some: Sequence[StoredRun]) -> Decimal:
    return sum((run.cost_usd or Decimal(0) for run in some), Decimal(0))


def value_of(run: StoredRun, dimension: object) -> str:
    about = run.metadata or {}
    values = {
        USER: run.user_id,
        TEAM: about.get("team"),
        REPOSITORY: about.get("repo"),
        AGENT: about.get("agent"),
        MODEL: run.model,
    }
    found = next(value for one, value in values.items() if one == dimension)
    return found or NO_VALUE


def purpose_of_run(run: StoredRun) -> Purpose:
    about = run.metadata or {}
    attempt = str(about["attempt"]) if "attempt" in about else None
    return purpose_of(about.get("agentName"), about.get("querySource"), about.get("role"), attempt)
