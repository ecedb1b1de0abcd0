"""The demo: the same for a seed and a day, never in the future, and with the story it promises."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median

import pytest
from genai_prices import data

from runtally.client.demo import projects
from runtally.client.demo.play import BATCH_RUNS, CALLS_PER_S, LiveTraffic, history
from runtally.client.demo.projects import OWN, PROJECTS, ROUTED, Model
from runtally.client.demo.story import FAILING_EXPERIMENT, PASSING_EXPERIMENT, Story
from runtally.client.post import Batch
from runtally.client.run import OutgoingRun, as_text
from runtally.privacy import ContentRule
from runtally.settings import CONTENT_KEYS, PrivacyMode

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DEFAULT_MAX_ERROR_RATE = 0.05
DEFAULT_WINDOW = 100


@pytest.fixture(scope="module")
def month() -> list[Batch]:
    return history(NOW, 30, 1)


@pytest.fixture(scope="module")
def runs(month: list[Batch]) -> list[OutgoingRun]:
    return sorted((run for batch in month for run in batch.runs), key=occurred_at)


@pytest.fixture(scope="module", params=[1, 6])
def any_month(request: pytest.FixtureRequest) -> list[Batch]:
    """The month as it is on a Sunday and a Friday: incidents keep to workdays, and weekends are thin."""
    days: int = request.param
    return history(NOW + timedelta(days=days), 30, 1)


def occurred_at(run: OutgoingRun) -> datetime:
    assert run.timestamp
    return datetime.fromisoformat(run.timestamp)


def ids(batches: list[Batch]) -> set[tuple[str, str]]:
    return {(batch.project_id, run.run_id) for batch in batches for run in batch.runs}


def failed_share(runs: list[OutgoingRun]) -> float:
    return sum(run.status != "success" for run in runs) / len(runs)


def test_the_same_seed_gives_the_same_history() -> None:
    first, second = (
        [(batch.project_id, as_text(run)) for batch in history(NOW, 3, 7) for run in batch.runs] for _ in range(2)
    )

    assert first == second


def test_every_run_has_an_id_of_its_own(month: list[Batch]) -> None:
    assert len(ids(month)) == sum(len(batch.runs) for batch in month)


def test_another_seed_is_another_history() -> None:
    assert not ids(history(NOW, 2, 1)) & ids(history(NOW, 2, 2))


def test_a_demo_later_that_day_adds_only_what_has_happened_since() -> None:
    earlier, later = ids(history(NOW, 2, 1)), ids(history(NOW + timedelta(hours=3), 3, 1))

    assert earlier < later


def test_a_demo_the_next_day_repeats_the_ids_of_the_days_before() -> None:
    today, tomorrow = ids(history(NOW, 7, 1)), ids(history(NOW + timedelta(days=1), 8, 1))

    # The story moves with the day, and a slower call may just have missed the earlier demo's end.
    assert len(today - tomorrow) < 5


def test_it_has_the_size_and_the_projects_that_it_promises(month: list[Batch], runs: list[OutgoingRun]) -> None:
    assert {batch.project_id for batch in month} == {project.id for project in PROJECTS}
    assert 25_000 <= len(runs) <= 42_000
    assert all(len(batch.runs) <= BATCH_RUNS for batch in month)


def test_its_size_does_not_hang_on_the_day_of_the_week(any_month: list[Batch]) -> None:
    assert 25_000 <= sum(len(batch.runs) for batch in any_month) <= 42_000


def test_nothing_has_happened_in_the_future_or_before_the_first_day(runs: list[OutgoingRun]) -> None:
    ends = [occurred_at(run) + timedelta(milliseconds=run.latency_ms or 0) for run in runs]

    assert NOW - timedelta(days=30) <= min(ends)
    assert NOW - timedelta(hours=1) <= max(ends) <= NOW


def test_batches_are_oldest_first(month: list[Batch]) -> None:
    for project in PROJECTS:
        starts = [occurred_at(batch.runs[0]) for batch in month if batch.project_id == project.id]
        assert starts
        assert starts == sorted(starts)


def test_it_uses_eight_models_of_four_providers_that_the_catalogue_prices(runs: list[OutgoingRun]) -> None:
    known = {provider.id: provider for provider in data.providers}
    used = {(run.provider, run.model) for run in runs}

    catalogued = [one for one in vars(projects).values() if isinstance(one, Model) and one not in {OWN, ROUTED}]

    assert len(catalogued) == 8
    assert len({model.provider for model in catalogued}) == 4
    for model in catalogued:
        entry = known[model.provider].find_model(model.name)
        assert entry is not None
        assert entry.prices
        assert (model.provider, model.name) in used


def test_a_few_runs_have_a_model_that_nobody_prices(runs: list[OutgoingRun]) -> None:
    unpriced = [run for run in runs if run.model == OWN.name]

    assert 0 < len(unpriced) < 200
    assert all(run.cost_usd is None for run in unpriced)


def test_only_the_routing_aggregator_reports_costs(runs: list[OutgoingRun]) -> None:
    assert {run.provider for run in runs if run.cost_usd is not None} == {"openrouter"}


def test_cached_and_reasoning_tokens_are_parts_of_the_whole(runs: list[OutgoingRun]) -> None:
    assert any(run.cached_input_tokens for run in runs)
    assert any(run.cache_write_tokens for run in runs)
    assert any(run.reasoning_tokens for run in runs)
    for run in runs:
        assert (run.cached_input_tokens or 0) + (run.cache_write_tokens or 0) <= (run.input_tokens or 0)
        assert (run.reasoning_tokens or 0) <= (run.output_tokens or 0)


def test_a_trace_has_at_most_six_calls_of_one_project(month: list[Batch]) -> None:
    traces: dict[str | None, list[str]] = defaultdict(list)
    for batch in month:
        for run in batch.runs:
            traces[run.trace_id].append(batch.project_id)

    assert None not in traces
    assert set(Counter(map(len, traces.values()))) == {1, 2, 3, 4, 5, 6}
    assert all(len(set(projects)) == 1 for projects in traces.values())


def test_nights_and_weekends_are_quiet(runs: list[OutgoingRun]) -> None:
    by_hour = Counter(occurred_at(run).hour for run in runs)
    by_weekday = Counter(occurred_at(run).weekday() for run in runs)

    assert by_hour[3] < by_hour[14] / 3
    assert max(by_weekday[5], by_weekday[6]) < min(by_weekday[day] for day in range(5)) / 2


def test_longer_answers_take_longer(runs: list[OutgoingRun]) -> None:
    good = sorted((run for run in runs if run.status == "success"), key=lambda run: run.output_tokens or 0)
    quarter = len(good) // 4

    short, long = (median(run.latency_ms or 0 for run in part) for part in (good[:quarter], good[-quarter:]))

    assert long > 2 * short


def test_the_outage_hits_one_provider_for_two_hours(runs: list[OutgoingRun]) -> None:
    outage = Story.ending(NOW.date()).outage
    during = [run for run in runs if occurred_at(run) in outage]
    hit = [run for run in during if run.provider == "openai"]
    others = [run for run in during if run.provider != "openai"]

    assert outage.end - outage.start == timedelta(hours=2)
    assert failed_share(hit) > 0.6
    assert {run.status for run in hit} == {"success", "error", "timeout"}
    assert failed_share(others) < 0.1


def test_the_slow_day_is_slow(runs: list[OutgoingRun]) -> None:
    slow = Story.ending(NOW.date()).slow
    google = [run for run in runs if run.provider == "google" and run.status == "success"]

    during, usual = (
        median(run.latency_ms or 0 for run in google if (occurred_at(run) in slow) is inside)
        for inside in (True, False)
    )

    assert during > 3 * usual


def test_the_grown_prompt_costs_more_until_a_cheaper_model_takes_over(month: list[Batch]) -> None:
    bloat = Story.ending(NOW.date()).bloat
    reviews = [
        run
        for batch in month
        if batch.project_id == "code-review-bot"
        for run in batch.runs
        if run.metadata and run.metadata["feature"] == "review" and run.status == "success"
    ]
    before = [run for run in reviews if occurred_at(run) < bloat.start]
    during = [run for run in reviews if occurred_at(run) in bloat]
    after = [run for run in reviews if occurred_at(run) >= bloat.end]

    tokens = [median(run.input_tokens or 0 for run in part) for part in (before, during, after)]
    assert tokens[1] > 3 * tokens[0]
    assert tokens[2] < 1.5 * tokens[0]
    assert Counter(run.model for run in before).most_common(1)[0][0] == "claude-sonnet-5-5"
    assert Counter(run.model for run in after).most_common(1)[0][0] == "gpt-5.4-mini"


def test_one_experiment_passes_the_default_rule_and_the_other_fails(any_month: list[Batch]) -> None:
    recent = [run for batch in any_month for run in batch.runs]

    last = {
        name: sorted((run for run in recent if run.experiment_id == name), key=occurred_at)[-DEFAULT_WINDOW:]
        for name in (PASSING_EXPERIMENT, FAILING_EXPERIMENT)
    }

    assert len(last[PASSING_EXPERIMENT]) == len(last[FAILING_EXPERIMENT]) == DEFAULT_WINDOW
    assert failed_share(last[PASSING_EXPERIMENT]) <= DEFAULT_MAX_ERROR_RATE
    assert failed_share(last[FAILING_EXPERIMENT]) > DEFAULT_MAX_ERROR_RATE


def test_a_few_users_start_most_traces_and_have_several_in_a_session(month: list[Batch]) -> None:
    for project in PROJECTS:
        own = [run for batch in month if batch.project_id == project.id for run in batch.runs]
        users = Counter(run.user_id for run in own)
        traces_of_session = defaultdict(set)
        for run in own:
            traces_of_session[run.session_id].add(run.trace_id)

        assert set(users) <= set(project.users)
        assert len(users) > 0.9 * len(project.users)
        assert sum(runs for _, runs in users.most_common(max(2, len(project.users) // 10))) > len(own) / 3
        assert max(map(len, traces_of_session.values())) > 3


def test_first_tokens_come_before_the_end_of_an_answer(runs: list[OutgoingRun]) -> None:
    answered = [run for run in runs if run.status == "success"]

    assert all(0 < (run.time_to_first_token_ms or 0) <= (run.latency_ms or 0) for run in answered)
    assert {run.finish_reason for run in answered} == {"stop", "length", "tool_calls"}


def test_a_release_breaks_the_cache_of_one_project_until_the_next_one(month: list[Batch]) -> None:
    broken = Story.ending(NOW.date()).broken_cache

    def hit_rate(project_id: str, *, inside: bool) -> float:
        answers = [
            run
            for batch in month
            if batch.project_id == project_id
            for run in batch.runs
            if run.metadata and run.metadata["feature"] == "answer" and (occurred_at(run) in broken) is inside
        ]
        return sum(run.cached_input_tokens or 0 for run in answers) / sum(run.input_tokens or 0 for run in answers)

    assert hit_rate("support-agent", inside=True) < hit_rate("support-agent", inside=False) / 3
    assert hit_rate("doc-search", inside=True) > hit_rate("doc-search", inside=False) / 1.5


def test_metadata_holds_labels_and_no_content(runs: list[OutgoingRun]) -> None:
    rule = ContentRule.of(PrivacyMode.STRICT, CONTENT_KEYS.split(","))

    for run in runs:
        assert run.metadata
        of_agent = (
            {"agent", "agentName", "attempt", "costBasis", "querySource", "role"} if "agent" in run.metadata else set()
        )
        place = {"repo"} if of_agent else {"region"}
        assert set(run.metadata) - {"repo"} - of_agent | place == {"env", "feature", "release"} | place
        assert not rule.scrub(run.metadata).dropped
        assert run.prompt_hash
        assert run.prompt_preview is None


def test_live_traffic_comes_at_its_rate_and_only_when_it_has_ended() -> None:
    traffic = LiveTraffic(NOW, Random(1))  # noqa: S311  # Made-up traffic is no secret.
    posted: list[OutgoingRun] = []

    for second in range(1200):
        until = NOW + timedelta(seconds=second)
        for batch in traffic.until(until):
            assert all(occurred_at(run) + timedelta(milliseconds=run.latency_ms or 0) <= until for run in batch.runs)
            posted += batch.runs

    assert 0.8 * CALLS_PER_S < len(posted) / 1200 < 1.2 * CALLS_PER_S
    assert len({run.run_id for run in posted}) == len(posted)


def test_two_live_demos_do_not_share_ids() -> None:
    first, second = (
        ids(LiveTraffic(NOW, Random(seed)).until(NOW + timedelta(minutes=5)))  # noqa: S311  # Made-up traffic.
        for seed in (1, 2)
    )

    assert first
    assert not first & second
