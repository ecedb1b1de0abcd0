"""SQL that is put together, as the database gets it: in `sql/`, so that a change of it is seen where it is reviewed.

`UPDATE_SQL=1 make test ARGS=tests/structure/test_sql.py` writes it anew.
"""

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from textwrap import dedent, wrap

import pytest

from runtally.access import erasure_queries
from runtally.db.database import Connection
from runtally.ingest import queries as ingest
from runtally.metrics import cost_queries as costs
from runtally.metrics import narrowed_queries as narrow
from runtally.metrics import point_queries as points
from runtally.metrics import project_queries as projects
from runtally.metrics import project_sum_queries as project_sums
from runtally.metrics import queries as metrics
from runtally.metrics.only import Only
from runtally.models.run import Status
from runtally.pricing import recost_queries as recosting
from runtally.rollups import queries as rollups
from runtally.rollups import repair_queries, verify_queries
from runtally.runs.conditions import Conditions, conditions_of
from runtally.runs.filters import Outcome, Period, RunFilter
from runtally.runs.position import Direction, Place, Position, Stretch
from runtally.runs.queries import all_sql, extremes_sql, latencies_sql, page_sql, totals_sql

FOLDER = Path(__file__).parent / "sql"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PLACE = Place(NOW - timedelta(hours=1), "run-7", "p")
NARROW = RunFilter(
    project_id="p",
    provider="acme",
    model="acme-large",
    status=Outcome.ERROR,
    experiment_id="e",
    trace_id="t",
    search="run-7",
    min_cost_usd=Decimal("0.01"),
    max_cost_usd=Decimal(1),
    min_latency_ms=10,
    max_latency_ms=100,
    metadata_key="user.name",
    metadata_value="ann",
    since=NOW - timedelta(days=1),
    until=NOW,
)


def explorer() -> Iterator[tuple[str, str]]:
    """What the run explorer asks, from the plainest filter to the narrowest."""
    plain = conditions_of(RunFilter(project_id="p"), NOW)
    narrow = conditions_of(NARROW, NOW, Position(Direction.NEWER, PLACE))
    failed = conditions_of(RunFilter(project_id="p", status=Outcome.FAILED, metadata_key="user", range=Period.ALL), NOW)
    stretch = Stretch(begin=NOW, end=NOW - timedelta(hours=6), models=("acme-large",))
    of_all = conditions_of(RunFilter(provider="acme"), NOW, Position(Direction.OLDER, PLACE), stretch)
    cases: Mapping[str, tuple[Conditions, Direction]] = {
        "a project": (plain, Direction.OLDER),
        "every filter, towards newer runs": (narrow, Direction.NEWER),
        "failed runs with a key in their metadata": (failed, Direction.OLDER),
        "all projects, within a stretch": (of_all, Direction.OLDER),
    }
    for name, (conditions, direction) in cases.items():
        yield f"page: {name}", page_sql(conditions, direction, steps=20_000, limit=51)
        yield f"totals: {name}", totals_sql(conditions, steps=10_000)
    yield "extremes: every filter", extremes_sql(narrow, steps=5_000, limit=5)
    yield "latencies: a project", latencies_sql(plain, steps=10_000)
    yield "export: every filter", all_sql(narrow)


def constants(module: object) -> Iterator[tuple[str, str]]:
    for name, value in vars(module).items():
        if name.isupper() and name[0] != "_" and isinstance(value, str) and " " in value:
            yield name, value


def narrowed() -> Iterator[tuple[str, str]]:
    """What a project's page asks of some of its runs."""
    every = Only("acme-large", "acme", Status.ERROR, "e")
    yield "runs: every filter", narrow.runs_sql(every, 3_600)
    yield "runs: few, of a model", narrow.runs_sql(Only(model="m"), 3_600, by_time=True)
    yield "runs: those that failed", narrow.runs_sql(Only(status=Status.SUCCESS).failed, 3_600)
    yield "experiments: a status", narrow.experiments_sql(Only(status=Status.TIMEOUT))


def beside() -> Iterator[tuple[str, str]]:
    """What the overview asks of each project."""
    yield "sums of projects: days and what is left of one", project_sums.sums_sql(2, of_models=False)
    yield "sums of projects: a model", project_sums.sums_sql(1, of_models=True)
    yield "costs of projects: a model", project_sums.costs_sql(1, of_models=True)


STATEMENTS: Mapping[str, Mapping[str, str]] = {
    "explorer": dict(explorer()),
    "ingest": dict(constants(ingest)),
    "metrics": {
        **dict(constants(metrics)),
        **dict(constants(points)),
        **dict(constants(costs)),
        **dict(constants(project_sums)),
        **dict(constants(projects)),
        **dict(beside()),
        **dict(narrowed()),
    },
    "recosting": dict(constants(recosting)),
    "rollups": {
        **dict(constants(rollups)),
        **dict(constants(repair_queries)),
        **dict(constants(verify_queries)),
        "ERASE_RUNS": erasure_queries.ERASE_RUNS,
    },
}


def text_of(statements: Mapping[str, str]) -> str:
    blocks = []
    for name, sql in statements.items():
        lines = [part for line in dedent(sql.strip("\n")).splitlines() for part in wrapped(line)]
        blocks.append("\n".join((f"-- {name}", *lines)))
    return "\n\n".join(blocks) + "\n"


def wrapped(line: str) -> list[str]:
    """Short lines, because a diff is by line."""
    indent = " " * (len(line) - len(line.lstrip()) + 8)
    return wrap(line, 110, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


@pytest.mark.parametrize("name", STATEMENTS)
def test_the_sql_is_the_one_that_was_reviewed(name: str) -> None:
    file, text = FOLDER / f"{name}.sql", text_of(STATEMENTS[name])
    if "UPDATE_SQL" in os.environ:
        file.write_text(text)

    assert file.read_text() == text, "see in the diff of UPDATE_SQL=1 whether this is meant"


@pytest.mark.parametrize("name", STATEMENTS["explorer"])
async def test_what_the_explorer_asks_fits_the_schema(connection: Connection, name: str) -> None:
    assert await connection.prepare(STATEMENTS["explorer"][name])
