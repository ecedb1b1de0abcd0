"""Groups of runs come to what their runs add up to, whichever rows answer, or the question is refused."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from runtally import tracking
from runtally.audit import ANYONE
from runtally.clock import start_of_day
from runtally.db.database import Database
from runtally.errors import DimensionNotTracked
from runtally.models.dimension import DIMENSION_MEASURES
from runtally.models.run import Status, StoredRun
from runtally.usage.dimensions import OTHER, OTHER_NAME, Dimension, dimension_named
from runtally.usage.filter import ALL_RUNS, Outcome, RunFilter
from runtally.usage.groups import groups
from runtally.usage.groups import rows as group_rows
from runtally.usage.groups.groups import GroupAnswer, read_groups
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.memo import DayMemo
from runtally.usage.plan import ALL_MEASURES, Group, LatencyDetail, Question, Source, plan_of
from runtally.usage.sums.blocks import summed_ctes
from runtally.usage.timeline import BucketWidth, Timeline, TimeSpan
from runtally.usage.upkeep import dimension_queries as upkeep_queries
from runtally.usage.upkeep.dimensions import change_key, merge_dimensions
from tests.factories import examples
from tests.reference import nearest_rank
from tests.store.usage.made import NOW, clear, insert, made
from tests.store.usage.test_dimensions import values_of

CAP = 3
# Each example takes so many statements that to shrink one takes minutes.
FEW = examples(5, phases=[Phase.explicit, Phase.reuse, Phase.generate])
MEMO = DayMemo(2**24)
KEYS = [UUID(int=0), UUID(int=7)]
DIMENSIONS = [
    "provider",
    "model",
    "status",
    "errorCode",
    "experiment",
    "key",
    "serviceTier",
    "region",
    "trace",
    "session",
    "user",
    "tags",
    "metadata.feature",
    "metadata.env",
    "metadata.else",
]
texts = st.none() | st.sampled_from(["a", "b", "c", "d", "e"])
runs = st.builds(
    StoredRun,
    version=st.just(1),
    project_id=st.sampled_from(["one", "two"]),
    id=st.uuids().map(str),
    occurred_at=st.timedeltas(timedelta(days=-40), timedelta(hours=1)).map(lambda offset: NOW + offset),
    provider=st.sampled_from(["acme", "bolt"]),
    model=st.sampled_from(["large", "small"]),
    status=st.sampled_from(Status),
    error_code=st.none() | st.sampled_from(["rate_limit", ""]),
    input_tokens=st.none() | st.integers(0, 2**63 - 1),
    cached_input_tokens=st.none() | st.integers(0, 9),
    latency_ms=st.none() | st.integers(0, 10**6),
    cost_usd=st.none() | st.decimals(0, 10, places=12),
    cache_savings_usd=st.none() | st.decimals(-1, 10, places=12),
    experiment_id=st.none() | st.sampled_from(["x", "y"]),
    service_tier=st.none() | st.sampled_from(["batch", "flex"]),
    region=st.none() | st.just("us"),
    trace_id=texts,
    user_id=texts,
    session_id=texts,
    key_id=st.none() | st.sampled_from(KEYS),
    tags=st.none() | st.lists(st.sampled_from(["t", "u", "+", "="]), unique=True, min_size=1),
    metadata=st.none()
    | st.fixed_dictionaries({}, optional={"feature": texts, "environment": texts, "env": texts, "else": texts}),
    counted_as_other=st.sampled_from([None, None, True]),
    created_at=st.just(NOW),
)
batches = st.lists(st.lists(runs, min_size=1, max_size=20), min_size=1, max_size=3)
filters = st.fixed_dictionaries(
    {},
    optional={
        "provider": st.sampled_from(["acme", "(other)"]),
        "model": st.sampled_from(["large", "(other)"]),
        "status": st.sampled_from([*Outcome]).map(str),
        "user": st.sampled_from("ab"),
        "tags": st.sampled_from("tu"),
        "metadata.feature": st.sampled_from("ab"),
        "metadata.else": st.just("a"),
        "errorCode": st.just("rate_limit"),
        "experiment": st.just("x"),
        "serviceTier": st.just("Batch"),
        "region": st.just("us"),
        "minLatency": st.just("5000"),
    },
).map(lambda pairs: dict(list(pairs.items())[:2]))
# Neither end need be that of a stored bucket: what is before the first and after the last one is read from the runs.
ends = st.sampled_from([timedelta(0), timedelta(hours=5), timedelta(minutes=7)])
spans = st.builds(
    lambda days, more, less: TimeSpan(
        start_of_day(NOW) - days[0] * timedelta(days=1) + more,
        start_of_day(NOW) - (days[1] - 1) * timedelta(days=1) - less,
    ),
    st.sampled_from([(40, -1), (30, 0), (3, 0), (1, 0), (20, 2)]),
    ends,
    ends,
)


@dataclass(frozen=True)
class Expected:
    """What the runs of a group come to, recounted."""

    sums: tuple[Any, ...]
    p50: float
    p95: float


def named(name: str) -> Dimension:
    found = dimension_named(name)
    assert found is not None
    return found


def group_values(run: StoredRun, dimension: Dimension) -> list[str | None]:
    """The values of a run, recounted; None where it has none."""
    if dimension.name == "session":
        return [run.session_id]
    if dimension.name in {"provider", "model"} and run.counted_as_other:
        return [OTHER_NAME]
    if dimension.tracked_as is not None:
        return [value for value in values_of(run, dimension.tracked_as) if value] or [None]
    name = {
        "errorCode": "error_code",
        "experiment": "experiment_id",
        "trace": "trace_id",
        "key": "key_id",
        "serviceTier": "service_tier",
    }
    value = getattr(run, name.get(dimension.name, dimension.name))
    return [str(value) if value else None] if not isinstance(value, UUID) else [str(value)]


def expected_of(found: Iterable[StoredRun]) -> Expected:
    found = list(found)
    latencies = sorted(run.latency_ms for run in found if run.latency_ms is not None)
    conditions = {
        "runs": lambda run: run is not None,
        "errors": lambda run: run.status == "error",
        "timeouts": lambda run: run.status == "timeout",
        "unpriced": lambda run: run.cost_usd is None,
    }
    sums = tuple(
        sum(
            (conditions.get(one.name, lambda run, one=one: getattr(run, one.name) or 0)(run) for run in found),
            one.python_type(0),
        )
        for one in DIMENSION_MEASURES
    )
    return Expected(sums, nearest_rank(latencies, 50), nearest_rank(latencies, 95))


def keeps(run_filter: RunFilter, run: StoredRun) -> bool:
    of_dimensions = all(
        run_filter.value_of(one) in group_values(run, one) for one in run_filter.dimensions if one.name != "status"
    )
    failed = {Outcome.FAILED: {"error", "timeout"}}.get(run_filter.status, {run_filter.status})  # type: ignore[arg-type]
    is_long = run_filter.min_latency_ms is None or (run.latency_ms or 0) >= run_filter.min_latency_ms
    return of_dimensions and (run_filter.status is None or run.status in failed) and is_long


def recount(
    sent: Iterable[StoredRun], question: Question
) -> tuple[Mapping[Group, Expected], Mapping[tuple[int, Group], Expected]]:
    groups: dict[Group, list[StoredRun]] = defaultdict(list)
    slices: dict[tuple[int, Group], list[StoredRun]] = defaultdict(list)
    timeline = question.timeline
    for run in sent:
        if not (timeline.span.since <= run.occurred_at < timeline.span.until and keeps(question.filter, run)):
            continue
        if question.filter.project_id not in {None, run.project_id}:
            continue
        number = sum(start <= run.occurred_at for start in timeline.starts) - 1
        of_run: list[Group] = [()]
        for dimension in question.by:
            of_run = [(*group, value) for group in of_run for value in group_values(run, dimension)]
        # What is called as the rest is belongs to the rest.
        for group in ((OTHER,) * len(group) if OTHER_NAME in group else group for group in of_run):
            groups[group].append(run)
            slices[number, group].append(run)
    return {group: expected_of(of) for group, of in groups.items()}, {
        key: expected_of(of) for key, of in slices.items()
    }


def sums_in(answer: GroupAnswer) -> dict[Group, tuple[Any, ...]]:
    return {group: tuple(getattr(one.totals, name) for name in ALL_MEASURES) for group, one in answer.groups.items()}


async def ask(database: Database, question: Question) -> GroupAnswer:
    """Ask without the memo of closed days, then with what it has of earlier questions, then with this one's answer."""
    async with database.snapshot() as connection:
        answer = await read_groups([GroupRowReader.over(connection)], question)
        for _ in range(2):
            assert await read_groups([GroupRowReader.over(connection, MEMO)], question) == answer, question
    return answer


async def check_limited(database: Database, question: Question, answer: GroupAnswer) -> None:
    """Two groups are named, and all others add up to one, in each bucket as over all of the time."""
    limited = replace(question, limit=2)
    found = await ask(database, limited)
    # The database chooses the groups, and only one more than is asked for: so its order has to be right.
    with patch.object(groups, "MAX_RANKS", 1), patch.object(groups, "_SPARE_RANKS", 1):
        async with database.snapshot() as connection:
            assert await read_groups([GroupRowReader.over(connection, MEMO)], limited) == found
            assert await read_groups([GroupRowReader.over(connection, MEMO)], limited) == found
    # Of more groups than are read at once the ranks are read first.
    for few in (0, 1, 3):
        with patch.object(groups, "FEW_ROWS", few):
            async with database.snapshot() as connection:
                assert await read_groups([GroupRowReader.over(connection, MEMO)], limited) == found
    names = [group for group in answer.groups if OTHER not in group]
    ranks = [(answer.groups[group].totals.cost_usd, answer.groups[group].totals.runs) for group in names]
    assert ranks == sorted(ranks, reverse=True)
    has_rest = len(names) > 2 or len(names) < len(answer.groups)
    assert list(found.groups) == names[:2] + ([(OTHER,) * len(question.by)] if has_rest else [])
    for of_all, of_two in ((answer.groups, found.groups), (answer.slices, found.slices)):
        assert sum(one.totals.cost_usd for one in of_all.values()) == sum(
            one.totals.cost_usd for one in of_two.values()
        )
        assert sum(one.totals.runs for one in of_all.values()) == sum(one.totals.runs for one in of_two.values())


@given(
    sent=batches,
    merges=st.sets(st.integers(0, 2)),
    asked=st.lists(
        st.tuples(
            st.lists(st.sampled_from(DIMENSIONS), max_size=2, unique=True),
            filters,
            spans,
            st.sampled_from([None, *BucketWidth]),
            st.sampled_from(["one", None]),
        ),
        min_size=6,
        max_size=6,
    ),
)
@FEW
async def test_any_groups_of_any_runs_in_any_buckets_are_those_of_a_recount(
    own: Database, sent: list[list[StoredRun]], merges: set[int], asked: list[Any]
) -> None:
    await clear(own)
    for number, batch in enumerate(deepcopy(sent)):
        await insert(own, batch)
        if number in merges:
            await merge_dimensions(own, NOW, everything=True)
    every = [run for batch in sent for run in batch]
    for names, query, span, width, project_id in asked:
        if width in {BucketWidth.QUARTER_HOUR, BucketWidth.HOUR} and span.until - span.since > timedelta(days=10):
            continue
        timeline = Timeline.whole(span, NOW) if width is None else Timeline.in_buckets(span, width, NOW)
        run_filter = RunFilter.parse(query).replace(project_id=project_id)
        question = Question(timeline, run_filter, tuple(map(named, names)), latencies=LatencyDetail.BUCKETS)
        answer = await ask(own, question)
        groups, slices = recount(every, question)
        assert sums_in(answer) == {group: one.sums for group, one in groups.items()}, (names, query, span, width)
        await check_limited(own, question, answer)
        found = {place: one.totals.runs for place, one in answer.slices.items() if one.totals.runs}
        assert found == {place: one.sums[0] for place, one in slices.items()}, (names, query, span, width)
        for place, expected in (*groups.items(), *slices.items()):
            place_of = answer.groups if place in answer.groups else answer.slices
            latency = place_of[place].latency  # type: ignore[index]  # Of either kind.
            assert latency is not None
            assert latency.p50_ms == pytest.approx(expected.p50, rel=0.01), (names, query, span, width, place)
            assert latency.p95_ms == pytest.approx(expected.p95, rel=0.01), (names, query, span, width, place)


def question_of(*names: str, query: Mapping[str, str] | None = None, days: int = 7, **changes: Any) -> Question:  # noqa: ANN401  # Any field.
    today = start_of_day(NOW)
    span = TimeSpan(today - (days - 1) * timedelta(days=1), today + timedelta(days=1))
    run_filter = RunFilter.parse(query or {}).replace(project_id="one")
    timeline = Timeline.in_buckets(span, BucketWidth.DAY, NOW)
    question = Question(timeline, run_filter, tuple(map(named, names)), latencies=LatencyDetail.BUCKETS)
    return replace(question, **changes)


def featured(number: int, feature: str, cost: str = "1") -> StoredRun:
    run = made("one", f"{feature}-{number}")
    run.metadata, run.cost_usd = {"feature": feature, "else": feature}, Decimal(cost)
    return run


@pytest.fixture
def capped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many values of a day have sums of their own."""
    for name, sql in list(vars(upkeep_queries).items()):
        if isinstance(sql, str) and "<= 5000" in sql:
            monkeypatch.setattr(upkeep_queries, name, sql.replace("<= 5000", f"<= {CAP}"))
    whole = summed_ctes
    monkeypatch.setattr(
        "runtally.usage.groups.slices.summed_ctes",
        lambda *of, **how: whole(*of, **how).replace("<= 5000", f"<= {CAP}"),
    )


@pytest.fixture
def few_runs(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(group_rows, "MAX_RUNS_READ", 5)
    return 5


@pytest.mark.parametrize(
    ("names", "query"),
    [
        (("metadata.feature",), {}),
        (("metadata.feature", "model"), {}),
        (("model", "metadata.feature"), {"provider": "acme"}),
        (("model",), {"metadata.feature": "a"}),
        ((), {"metadata.feature": "a"}),
        (("provider", "model"), {}),
        (("status",), {}),
        (("model", "status"), {}),
        (("experiment",), {}),
        (("trace",), {}),
        ((), {"status": "error"}),
        ((), {"status": "success"}),
        (("model",), {"status": "success"}),
        (("tags",), {}),
        (("user",), {"model": "large"}),
    ],
)
async def test_what_sums_tell_apart_is_answered_however_many_runs_there_are(
    own: Database, few_runs: int, names: tuple[str, ...], query: dict[str, str]
) -> None:
    await clear(own)
    sent = [featured(number, "ab"[number % 2]) for number in range(few_runs * 4)]
    await insert(own, deepcopy(sent))

    answer = await ask(own, question_of(*names, query=query))

    assert sums_in(answer) == {group: one.sums for group, one in recount(sent, answer.question)[0].items()}


@pytest.mark.parametrize(
    ("names", "query", "advice"),
    [
        (("metadata.else",), {}, "track the key"),
        ((), {"metadata.else": "a"}, "track the key"),
        (("key",), {}, "by no more than that"),
        (("metadata.feature", "user"), {}, "by no more than that"),
        (("metadata.feature",), {"minCost": "0.5"}, "by no more than that"),
    ],
)
async def test_what_would_take_too_many_runs_is_refused_and_never_answered_in_part(
    own: Database, few_runs: int, names: tuple[str, ...], query: dict[str, str], advice: str
) -> None:
    await clear(own)
    sent = [featured(number, "ab"[number % 2]) for number in range(few_runs + 1)]
    await insert(own, deepcopy(sent[:few_runs]))
    question = question_of(*names, query=query)
    assert (await ask(own, question)).total.runs == sum(
        one.sums[0] for one in recount(sent[:few_runs], question)[0].values()
    )

    await insert(own, deepcopy(sent[few_runs:]))

    with pytest.raises(DimensionNotTracked, match=advice):
        await ask(own, question)


async def test_a_key_is_answered_from_its_sums_once_these_are_complete(own: Database, few_runs: int) -> None:
    await clear(own)
    await insert(own, [featured(number, "ab"[number % 2]) for number in range(few_runs * 2)])
    async with own.session() as session:
        await tracking.track(session, ANYONE, "one", "else", NOW)
    with pytest.raises(DimensionNotTracked):
        await ask(own, question_of("metadata.else"))
    while await change_key(own, NOW):
        pass
    answer = await ask(own, question_of("metadata.else"))
    assert {group: one.totals.runs for group, one in answer.groups.items()} == {("a",): 5, ("b",): 5}


@pytest.mark.usefixtures("capped")
async def test_beyond_the_cap_values_are_others_but_each_can_be_asked_for(own: Database) -> None:
    await clear(own)
    sent = [featured(number, f"f{number % 7}") for number in range(21)]
    await insert(own, deepcopy(sent))
    for is_merged in (False, True):
        if is_merged:
            await merge_dimensions(own, NOW, everything=True)
        grouped = await ask(own, question_of("metadata.feature"))
        assert len(grouped.groups) == CAP + 1
        assert grouped.groups[OTHER,].totals.runs == 3 * (7 - CAP)
        assert grouped.total.cost_usd == 21
        for number in range(7):
            answer = await ask(own, question_of(query={"metadata.feature": f"f{number}"}))
            assert answer.total.runs == 3


async def test_of_runs_that_were_dropped_sums_answer_and_nothing_else_does(own: Database) -> None:
    await clear(own)
    await insert(own, [featured(number, "a") for number in range(4)])
    async with own.connection() as connection:
        await connection.execute("UPDATE projects SET dropped_before = $1", NOW - timedelta(days=2))
    assert (await ask(own, question_of("metadata.feature"))).total.runs == 4
    with pytest.raises(DimensionNotTracked, match="only totals remain"):
        await ask(own, question_of("metadata.else"))
    assert (await ask(own, question_of("metadata.else", days=2))).total.runs == 4


async def test_runs_before_the_first_stored_bucket_and_after_the_last_one_both_count(own: Database) -> None:
    await clear(own)
    hour, minute = timedelta(hours=1), timedelta(minutes=1)
    last = start_of_day(NOW) - timedelta(days=1) + 12 * hour
    span = TimeSpan(last - 5 * hour - 7 * minute, last + 7 * minute)
    early, late = featured(1, "a"), featured(2, "a")
    early.occurred_at, late.occurred_at = span.since + minute, span.until - minute
    await insert(own, [early, late])
    await merge_dimensions(own, NOW, everything=True)

    answer = await ask(own, question_of("metadata.feature", timeline=Timeline.whole(span, NOW)))

    assert answer.groups[("a",)].totals.runs == 2


def test_days_of_a_key_are_read_from_its_sums_and_shorter_buckets_by_model_from_the_runs() -> None:
    assert plan_of(question_of("metadata.feature"), is_tracked=True).sums is Source.VALUES
    by_hour = replace(
        question_of("metadata.feature", "model"),
        timeline=Timeline.in_buckets(TimeSpan(NOW, NOW), BucketWidth.HOUR, NOW),
    )
    assert plan_of(by_hour, is_tracked=True).cover.stored == ()
    assert plan_of(question_of(measures=("runs", "cost_usd")), is_tracked=False).sums is Source.TOTALS
    assert plan_of(Question(question_of().timeline, ALL_RUNS), is_tracked=False).sums is Source.SLICES
