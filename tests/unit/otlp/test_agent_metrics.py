"""Agents that report sums of tokens alone: what each export adds is one run, whatever is sent again.

The points have the attributes and times that Continue's CLI 1.5.47 sent.
"""

from collections.abc import Mapping

import pytest

from runtally.otlp import json, protobuf
from runtally.otlp.agents.known import Signal, find_agent
from runtally.otlp.agents.metrics import (
    FIELDS,
    METRICS,
    NAMES,
    TOKENS,
    Sum,
    added_by,
    combine,
    drop_untimed,
    read_sums,
)
from runtally.otlp.agents.records import Place
from runtally.otlp.attributes import wanted_of_resources
from runtally.otlp.calls import Call
from runtally.otlp.values import Malformed, Metric, Rules, Value, Wanted
from tests.spans import SECOND, START, Json, as_json, as_protobuf, make_metrics, make_point, make_sum

RULES = Rules(wanted_of_resources(NAMES), Wanted(NAMES), METRICS)
RESOURCE: dict[str, Value] = {"service.name": "continue-cli", "service.version": "1.5.47", "host.name": "never"}
MINUTE = 60 * SECOND
Tokens = Mapping[str, float]


def points(tokens: Tokens, *, model: str = "gpt-4o", start: int = START, time: int = START + SECOND) -> list[Json]:
    # A kind of tokens is counted from the moment when the first ones came.
    return [
        make_point(value, {"type": kind, "model": model}, start=start + late * 1_000_000, time=time)
        for late, (kind, value) in enumerate(tokens.items())
    ]


def metrics_of(*metrics: Json, **resource: Value) -> list[Metric]:
    request = make_metrics(*metrics, resource={**RESOURCE, **resource}, scope="continue-cli")
    found = list(json.read_metrics(as_json(request), RULES))
    others = list(protobuf.read_metrics(as_protobuf(request), RULES))
    assert [(one.name, one.is_delta, one.points) for one in found] == [
        (one.name, one.is_delta, one.points) for one in others
    ]
    assert [one.resource.attributes for one in found] == [one.resource.attributes for one in others]
    return found


def calls_of(*metrics: Metric, before: list[Call] | None = None) -> list[Call]:
    calls: list[Call] = []
    sums: list[Sum] = []
    for metric in metrics:
        agent = find_agent(metric.resource.attributes, metric.scope)
        assert agent
        assert agent.signal is Signal.METRICS
        sums += read_sums(agent, metric, Place(metric.resource, "p", keeps_email=False))
    for one in combine(sums):
        call = added_by(one, counted_in([*(before or []), *calls], one.series))
        calls += [call] if call else []
    return calls


def counted_in(calls: list[Call], series: str) -> dict[str, int]:
    return {field: sum(call.facts.get(field, 0) for call in calls if call.trace_id == series) for field in FIELDS}


def tokens_of(call: Call) -> list[int]:
    return [call.facts.get(field, 0) for field in FIELDS]


def test_an_export_is_one_run_of_each_model() -> None:
    sent = points({"input": 1200, "output": 350, "cacheRead": 1000, "other": 7}) + points(
        {"input": 10}, model="gpt-4o-mini"
    )

    first, second = calls_of(*metrics_of(make_sum(TOKENS, *sent), make_sum("continue_cli_cost_usage", *sent)))

    assert (first.facts["model"], tokens_of(first)) == ("gpt-4o", [1200, 350, 1000, 0])
    assert (second.facts["model"], tokens_of(second)) == ("gpt-4o-mini", [10, 0, 0, 0])
    assert first.about == {"agent": "continue-cli", "agentVersion": "1.5.47", "aggregated": True}
    assert (first.latency_ms, first.end) == (None, START + SECOND)


def test_of_a_sum_since_the_start_only_what_was_added_is_a_run() -> None:
    first = calls_of(*metrics_of(make_sum(TOKENS, *points({"input": 100, "output": 10}))))
    grown = metrics_of(make_sum(TOKENS, *points({"input": 250, "output": 15}, time=START + MINUTE)))

    added = calls_of(*grown, before=first)

    assert [tokens_of(call)[:2] for call in added] == [[150, 5]]
    assert added[0].trace_id == first[0].trace_id
    assert added[0].run_id != first[0].run_id
    # An export repeats points that did not change, and a client repeats an export.
    unchanged = metrics_of(make_sum(TOKENS, *points({"input": 250, "output": 15}, time=START + 2 * MINUTE)))
    assert calls_of(*unchanged, *grown, before=first + added) == []


@pytest.mark.parametrize(
    ("model", "first", "then"),
    [("claude-opus-4-5", [500, 0, 400, 0], [2800, 0, 100, 2000]), ("gpt-4o", [100, 0, 400, 0], [700, 0, 100, 2000])],
)
def test_what_the_input_includes_hangs_on_the_model_and_not_on_the_sizes(
    model: str, first: list[int], then: list[int]
) -> None:
    sent: list[Tokens] = [
        {"input": 100, "cacheRead": 400},
        {"input": 800, "cacheRead": 500, "cacheCreation": 2000},
        {"input": 9000, "cacheRead": 500, "cacheCreation": 2000},
    ]
    calls: list[Call] = []
    for minute, tokens in enumerate(sent):
        export = points(tokens, model=model, time=START + minute * MINUTE)
        calls += calls_of(*metrics_of(make_sum(TOKENS, *export)), before=calls)

    assert [tokens_of(call) for call in calls] == [first, then, [8200, 0, 0, 0]]


@pytest.mark.parametrize(
    ("start", "time", "delta", "dropped"),
    [(START, 0, False, 1), (0, START, False, 1), (START, START, False, 0), (0, START, True, 0), (0, 0, True, 1)],
)
def test_points_without_the_times_that_identify_them_are_dropped(
    start: int, time: int, delta: bool, dropped: int
) -> None:
    (metric,) = metrics_of(make_sum(TOKENS, *points({"input": 1}, start=start, time=time), delta=delta))

    assert (drop_untimed(metric), len(metric.points)) == (dropped, 1 - dropped)


def test_exports_of_one_request_add_up_to_one_run_at_the_time_of_the_last() -> None:
    first = calls_of(*metrics_of(make_sum(TOKENS, *points({"input": 50}))))
    exports = [
        points(tokens, time=START + minute * MINUTE)
        for minute, tokens in ((2, {"input": 200}), (1, {"input": 100, "output": 10}), (3, {"input": 300}))
    ]

    # They are points of one metric, or metrics of several exports.
    for sums in (
        [make_sum(TOKENS, *(point for export in exports for point in export))],
        [make_sum(TOKENS, *export) for export in exports],
    ):
        (call,) = calls_of(*metrics_of(*sums), before=first)
        assert (tokens_of(call)[:2], call.end) == ([250, 10], START + 3 * MINUTE)


def test_sums_since_the_last_export_are_one_run_each_in_one_request_too() -> None:
    exports = [points({"input": 100}, time=START + minute * MINUTE) for minute in (1, 2)]

    calls = calls_of(*metrics_of(make_sum(TOKENS, *exports[0], *exports[1], delta=True)))

    assert [tokens_of(call)[0] for call in calls] == [100, 100]
    assert len({call.run_id for call in calls}) == 2


def test_two_exports_that_start_from_the_same_count_have_one_id() -> None:
    first, second = (
        metrics_of(make_sum(TOKENS, *points({"input": 100 * minute}, time=START + minute * MINUTE)))
        for minute in (1, 2)
    )

    assert calls_of(*first)[0].run_id == calls_of(*second)[0].run_id
    assert calls_of(*second, before=calls_of(*first))[0].run_id != calls_of(*first)[0].run_id


def test_two_processes_that_look_alike_are_told_apart_by_their_start() -> None:
    one = calls_of(*metrics_of(make_sum(TOKENS, *points({"input": 100}))))
    two = calls_of(*metrics_of(make_sum(TOKENS, *points({"input": 100}, start=START + 1_000_000))), before=one)

    assert tokens_of(two[0])[0] == 100
    assert two[0].run_id != one[0].run_id


def test_a_sum_since_the_last_export_is_a_run_as_it_is() -> None:
    first = calls_of(*metrics_of(make_sum(TOKENS, *points({"input": 100}), delta=True)))
    next_one = metrics_of(make_sum(TOKENS, *points({"input": 100}, time=START + MINUTE), delta=True))

    assert [tokens_of(call)[0] for call in calls_of(*next_one, before=first)] == [100]


def test_users_of_a_sum_are_those_of_its_resource() -> None:
    (call,) = calls_of(*metrics_of(make_sum(TOKENS, *points({"input": 1})), **{"user.name": "ada"}))

    assert call.facts["user"] == "ada"
    assert "never" not in str(call)


@pytest.mark.parametrize("value", [-5, 0.5, 2.0**60])
def test_a_value_that_is_no_number_of_tokens_is_left_out(value: float) -> None:
    assert calls_of(*metrics_of(make_sum(TOKENS, *points({"input": value})))) == []


def test_metrics_that_break_off_are_malformed() -> None:
    body = as_protobuf(make_metrics(make_sum(TOKENS, *points({"input": 1}))))

    with pytest.raises(Malformed):
        list(protobuf.read_metrics(body[:-1], RULES))
    with pytest.raises(Malformed):
        list(json.read_metrics(b'{"resourceMetrics": 1}', RULES))
