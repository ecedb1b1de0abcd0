"""What charts draw and say of metrics."""

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest
from altair.vegalite.v6.schema.core import load_schema

from runtally.usage.dimensions import MODEL, NO_VALUE, OTHER, PROVIDER, STATUS, TAGS, USER
from runtally.usage.totals import Totals
from runtally.usage.window import Range
from tests.unit.charts.made import cost, make_summary
from webapp.charts import series
from webapp.charts.chart import Chart, KeyEntry
from webapp.charts.metrics import Metric
from webapp.charts.series import Groups

SLOTS = {"large": "c1", "small": "c2", "rare": "c3"}
LAST = 27
"""Number of the bucket that holds the present."""


def payload(chart: Chart) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(chart.payload())
    return read


def datasets(chart: Chart) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = payload(chart)["spec"]["datasets"]
    return rows


def parameters(chart: Chart) -> dict[str, Any]:
    return {parameter["name"]: parameter.get("value") for parameter in payload(chart)["spec"]["params"]}


@pytest.fixture(scope="module")
def vega_lite() -> jsonschema_rs.Draft7Validator:
    """The schema of the Vega-Lite that Altair writes; its own validator takes a third of a second for a chart."""
    return jsonschema_rs.Draft7Validator(with_plain_references(load_schema()))


def with_plain_references(schema: Any) -> Any:  # noqa: ANN401  # Any JSON value.
    """Definitions are named like types, `Scale<number>`, which is no URI."""
    if isinstance(schema, list):
        return list(map(with_plain_references, schema))
    if not isinstance(schema, dict):
        return schema
    return {
        name: quote(inner, safe="#/") if name == "$ref" and isinstance(inner, str) else with_plain_references(inner)
        for name, inner in schema.items()
    }


@pytest.mark.parametrize("range_", list(Range))
def test_every_chart_is_valid_vega_lite(range_: Range, vega_lite: jsonschema_rs.Draft7Validator) -> None:
    metrics = make_summary({0: {"large": "2"}, 5: {"small": "1"}}, latencies={3: 900}, range_=range_)
    before = make_summary({0: {"large": "1"}}, range_=range_, previous=True)

    charts = [
        cost(metrics, before, MODEL, SLOTS),
        cost(metrics, None, PROVIDER, {}),
        series.chart(Metric.RUNS, metrics, before),
        series.chart(Metric.TOKENS, metrics, before),
        series.chart(Metric.ERRORS, metrics),
        series.chart(Metric.LATENCY, metrics),
    ]

    groups = Groups(MODEL, SLOTS)
    charts += [series.chart(metric, metrics.grouped_by(MODEL), before, groups) for metric in Metric]
    charts += [series.chart(metric, metrics, before) for metric in Metric]
    for chart in charts:
        assert [error.message for error in vega_lite.iter_errors(payload(chart)["spec"])] == []


def test_an_invalid_spec_is_found(vega_lite: jsonschema_rs.Draft7Validator) -> None:
    spec = payload(series.chart(Metric.ERRORS, make_summary()))["spec"]
    spec["layer"][0]["mark"] = {"type": "nonsense"}

    assert list(vega_lite.iter_errors(spec))


def test_a_chart_of_nothing_has_an_axis_and_no_bars() -> None:
    chart = cost(make_summary(), None, MODEL, SLOTS)

    assert datasets(chart)["segments"] == []
    assert parameters(chart)["y_labels"] == ["$0", "$0.25", "$0.50", "$0.75", "$1.00"]
    assert chart.key == ()
    assert chart.table.columns == ("Time (UTC)", "Total")
    assert chart.sentence == "Cost by model, per 6 hours. Last 7 days: $0.00 in total."


def test_the_costliest_is_at_the_bottom_whatever_its_colour() -> None:
    chart = cost(make_summary({0: {"small": "1", "large": "0.5"}}), None, MODEL, SLOTS)

    bottom, top = datasets(chart)["segments"]
    assert bottom == {"i": 0, "y0": 0.0, "y1": 1.0, "slot": "c2"}
    assert top == {"i": 0, "y0": 1.0, "y1": 1.5, "slot": "c1"}
    assert chart.key == (KeyEntry("small", "c2"), KeyEntry("large", "c1"))


def test_names_without_a_colour_are_one_series_on_top() -> None:
    chart = cost(make_summary({0: {"large": "1", "x": "5", "y": "6"}}), None, MODEL, SLOTS)

    assert chart.key == (KeyEntry("large", "c1"), KeyEntry("Other", "other"))
    assert datasets(chart)["segments"][-1] == {"i": 0, "y0": 1.0, "y1": 12.0, "slot": "other"}


def test_a_chart_shows_eight_names_or_one_more_rather_than_a_rest_of_one() -> None:
    def shown(names: str) -> str:
        summary = make_summary({0: {name: str(20 - number) for number, name in enumerate(names)}})
        return "".join(series.charted(summary.grouped_by(MODEL), Metric.COST))

    assert shown("abc") == "abc"
    assert shown("abcdefghi") == "abcdefghi"
    assert shown("abcdefghij") == "abcdefgh"


def test_a_model_called_other_or_total_is_not_mixed_up_with_the_rest() -> None:
    slots = {"Other": "c1", "Total": "c2"}
    chart = cost(make_summary({0: {"Other": "4", "Total": "2", "x": "1", "y": "1"}}), None, MODEL, slots)

    assert chart.table.columns == ("Time (UTC)", "Other", "Total", "Other", "Total")
    assert chart.table.rows[0][1:] == ("$4.00", "$2.00", "$2.00", "$8.00")


def test_a_model_without_cost_is_not_in_the_key() -> None:
    chart = cost(make_summary({0: {"large": "1", "small": "0", "rare": "2"}}), None, MODEL, SLOTS)

    assert [entry.name for entry in chart.key] == ["rare", "large"]


def test_cost_by_provider_adds_up_its_models() -> None:
    metrics = make_summary({0: {"aa": "1", "ab": "2", "b": "1"}})

    chart = cost(metrics, None, PROVIDER, {"a": "c1", "b": "c2"})

    assert chart.heading == "Cost by provider, per 6 hours"
    assert datasets(chart)["segments"][0] == {"i": 0, "y0": 0.0, "y1": 3.0, "slot": "c1"}


def test_cost_by_status_has_failed_runs_on_top() -> None:
    tallies = {
        0: Totals(
            runs=9, errors=5, timeouts=2, cost_usd=Decimal(10), error_cost_usd=Decimal(3), timeout_cost_usd=Decimal(1)
        ),
        1: Totals(runs=2, cost_usd=Decimal(2)),
    }

    chart = cost(make_summary(totals=tallies), None, STATUS, {})

    assert chart.heading == "Cost by status, per 6 hours"
    assert chart.key == (KeyEntry("Success", "c1"), KeyEntry("Error", "bad"), KeyEntry("Timeout", "warn"))
    assert [row[1:] for row in chart.table.rows[:2]] == [
        ("$6.00", "$3.00", "$1.00", "$10.00"),
        ("$2.00", "$0.00", "$0.00", "$2.00"),
    ]
    assert datasets(chart)["segments"][2] == {"i": 0, "y0": 9.0, "y1": 10.0, "slot": "warn"}


def test_names_survive_json_and_stay_out_of_the_spec() -> None:
    name = 'odd "name" </script> \u6f22 \u2028 {{x}} \U0001f4b8'
    chart = cost(make_summary({0: {name: "1", "large": "2"}}), None, MODEL, SLOTS | {name: "c4"})

    read = payload(chart)

    assert read["rows"] == [[name, "c4"], ["large", "c1"]]
    assert "odd" not in json.dumps(read["spec"])


def test_only_the_bucket_that_is_not_over_is_hatched() -> None:
    chart = cost(make_summary({0: {"large": "1"}, LAST: {"large": "1"}}), None, MODEL, SLOTS)

    assert datasets(chart)["open"] == [{"i": LAST, "y": 1.0}]
    assert datasets(cost(make_summary({0: {"large": "1"}}), None, MODEL, SLOTS))["open"] == []
    assert payload(chart)["tips"][LAST]["title"] == "Sat 21 Nov, 12:00\u201318:00 UTC, so far"


def test_the_previous_period_is_a_tick_on_every_bar_and_fits_on_the_axis() -> None:
    before = make_summary({3: {"large": "90"}}, previous=True)

    chart = cost(make_summary({0: {"large": "1"}}), before, MODEL, SLOTS)

    assert len(datasets(chart)["previous"]) == 28
    assert datasets(chart)["previous"][3] == {"i": 3, "y": 90.0}
    assert parameters(chart)["top"] == 100
    assert chart.has_previous
    assert chart.table.columns[-1] == "Previous period"


def test_a_previous_period_without_anything_is_left_out() -> None:
    chart = cost(make_summary({0: {"large": "1"}}), make_summary(previous=True), MODEL, SLOTS)

    assert datasets(chart)["previous"] == []
    assert not chart.has_previous
    assert "previous" not in payload(chart)["tips"][0]


def test_thirty_days_say_that_they_are_compared_with_28_days_earlier() -> None:
    metrics = make_summary({0: {"large": "2"}}, range_=Range.MONTH)
    before = make_summary({0: {"large": "1"}}, range_=Range.MONTH, previous=True)

    chart = cost(metrics, before, MODEL, SLOTS)

    assert chart.previous_name == chart.table.columns[-1] == payload(chart)["previous"] == "28 days earlier"
    assert "$1.00 28 days earlier" in chart.sentence


def test_the_sentence_tells_total_comparison_and_peak() -> None:
    metrics = make_summary({0: {"large": "2"}, 18: {"large": "21.4"}})

    chart = cost(metrics, make_summary({0: {"large": "1"}}, previous=True), MODEL, SLOTS)

    assert chart.sentence == (
        "Cost by model, per 6 hours. Last 7 days: $23.40 in total, $1.00 the period before. "
        "Highest: $21.40, Thu 19 Nov, 06:00\u201312:00 UTC."
    )


def test_the_tooltip_lists_the_stack_from_its_top_and_leaves_out_what_is_not_in_the_bar() -> None:
    before = make_summary({0: {"large": "7"}}, previous=True)
    metrics = make_summary({0: {"large": "2", "small": "1"}, 1: {"large": "0.02"}})

    chart = cost(metrics, before, MODEL, SLOTS)

    read = payload(chart)
    assert read["rows"] == [["small", "c2"], ["large", "c1"]]
    assert read["tips"][0] == {
        "title": "Sat 14 Nov, 18:00\u201300:00 UTC",
        "values": ["$1.00", "$2.00"],
        "total": "$3.00",
        "previous": "$7.00",
    }
    assert read["tips"][1]["values"] == [None, "$0.0200"]


def test_sums_of_a_chart_are_exact_before_they_are_drawn() -> None:
    chart = cost(make_summary({0: {"large": "0.1", "small": "0.2"}}), None, MODEL, SLOTS)

    assert datasets(chart)["segments"][-1]["y1"] == 0.3


def test_runs_and_tokens_are_counted() -> None:
    metrics = make_summary(totals={2: Totals(runs=1_234, input_tokens=46_400_000, output_tokens=12_300_000)})

    runs, tokens = series.chart(Metric.RUNS, metrics, None), series.chart(Metric.TOKENS, metrics, None)

    assert runs.key == ()
    assert runs.table.rows[2][1:] == ("1,234",)
    assert payload(runs)["tips"][2]["values"] == ["1,234"]
    assert payload(runs)["tips"][3]["values"] == ["0"]
    assert tokens.table.rows[2][1:] == ("46.4M", "12.3M", "58.7M")
    assert [entry.name for entry in tokens.key] == ["Input tokens", "Output tokens"]


def test_an_error_rate_of_no_runs_is_a_gap_and_of_good_runs_is_zero() -> None:
    metrics = make_summary(totals={0: Totals(runs=10, errors=1), 1: Totals(runs=10)})

    chart = series.chart(Metric.ERRORS, metrics)

    points = datasets(chart)["points"]
    assert [point["y"] for point in points[:3]] == [0.1, 0.0, None]
    assert [row[1] for row in chart.table.rows[:3]] == ["10.00%", "0%", "\u2013"]
    assert chart.sentence.startswith(
        "Error rate, per 6 hours. Last 7 days: 5.00% over all runs. Highest: 10.00%, Sat 14 Nov"
    )


def test_a_latency_of_nothing_is_a_gap() -> None:
    chart = series.chart(Metric.LATENCY, make_summary(latencies={0: 5_100, 2: 840}))

    assert [point["y"] for point in datasets(chart)["points"][:3]] == [5_100.0, None, 840.0]
    assert [row[1:3] for row in chart.table.rows[:3]] == [
        ("5.1 s", "5.1 s"),
        ("\u2013", "\u2013"),
        ("840 ms", "840 ms"),
    ]
    assert payload(chart)["rows"] == [["p95 latency", "c1"], ["p50", "c2"], ["Runs", ""]]


def test_the_median_is_a_second_line_below_the_p95() -> None:
    chart = series.chart(Metric.LATENCY, make_summary(latencies={0: 5_100, 2: 840}))

    assert chart.key == (KeyEntry("p95 latency", "c1"), KeyEntry("p50", "c2"))
    by_slot = {slot: [row["y"] for row in datasets(chart)["points"] if row["slot"] == slot] for slot in ("c1", "c2")}
    assert len(by_slot["c1"]) == len(by_slot["c2"]) == LAST + 1
    assert by_slot["c2"][:3] == [5_100.0, None, 840.0]


def test_a_rate_is_a_line_for_each_of_the_biggest_groups() -> None:
    metrics = make_summary({0: {"large": "2", "small": "1"}, 2: {"large": "4"}}).grouped_by(MODEL)

    chart = series.chart(Metric.COST_PER_SUCCESS, metrics, None, Groups(MODEL, {"large": "c1", "small": "c2"}))

    points = datasets(chart)["points"]
    assert [(row["i"], row["y"]) for row in points if row["slot"] == "c1" and row["y"] is not None] == [
        (0, 2.0),
        (2, 4.0),
    ]
    assert [(row["i"], row["y"]) for row in points if row["slot"] == "c2" and row["y"] is not None] == [(0, 1.0)]
    assert chart.heading == "Cost per success by model, per 6 hours"
    assert chart.sentence.endswith("Last 7 days: $2.33 over all runs. Lines: large, small.")
    assert payload(chart)["tips"][2]["values"] == ["$4.00", None]


def test_lines_are_of_five_groups_at_most() -> None:
    many = make_summary({0: dict.fromkeys("abcdefgh", "1")}).grouped_by(MODEL)

    assert len(series.charted(many, Metric.CACHE)) == 0
    assert len(series.charted(many, Metric.ERRORS)) == 5


def test_runs_without_a_value_and_the_rest_have_words_of_their_own() -> None:
    by_user = replace(make_summary(), by=(USER,))
    metrics = replace(
        by_user,
        groups={("ann",): Totals(runs=3), (NO_VALUE,): Totals(runs=2), (OTHER,): Totals(runs=1)},
        slices={(0, ("ann",)): Totals(runs=3), (0, (NO_VALUE,)): Totals(runs=2), (1, (OTHER,)): Totals(runs=1)},
        buckets={0: Totals(runs=5), 1: Totals(runs=1)},
    )

    chart = series.chart(Metric.RUNS, metrics, None, Groups(USER, {"ann": "c1", NO_VALUE: "c2"}))

    assert chart.key == (KeyEntry("ann", "c1"), KeyEntry("(none)", "c2"), KeyEntry("Other", "other"))
    assert [row[1:] for row in chart.table.rows[:2]] == [("3", "2", "0", "5"), ("0", "0", "1", "1")]


def test_a_bar_of_groups_that_overlap_is_as_high_as_they_are_and_says_the_true_total() -> None:
    metrics = replace(
        make_summary(totals={0: Totals(runs=2)}),
        by=(TAGS,),
        groups={("a",): Totals(runs=2), ("b",): Totals(runs=2)},
        slices={(0, ("a",)): Totals(runs=2), (0, ("b",)): Totals(runs=2)},
    )

    chart = series.chart(Metric.RUNS, metrics, None, Groups(TAGS, {"a": "c1", "b": "c2"}))

    assert [row["y1"] for row in datasets(chart)["segments"]] == [2.0, 4.0]
    assert parameters(chart)["top"] >= 4
    assert payload(chart)["tips"][0]["total"] == "2"


def test_lines_of_nothing_say_so() -> None:
    errors, latency = series.chart(Metric.ERRORS, make_summary()), series.chart(Metric.LATENCY, make_summary())

    assert errors.sentence == "Error rate, per 6 hours. Last 7 days: \u2013 over all runs."
    assert parameters(errors)["y_labels"][-1] == "6.0%"
    assert parameters(latency)["y_labels"][-1] == "1,000 ms"


def test_the_line_to_the_unfinished_bucket_is_a_separate_part() -> None:
    chart = series.chart(Metric.LATENCY, make_summary(latencies={LAST - 1: 1_000, LAST: 2_000}))
    points = [point for point in datasets(chart)["points"] if point["slot"] == "c1"]

    assert points[-2:] == [
        {"i": LAST - 1, "y": 1_000.0, "tail": 1, "slot": "c1"},
        {"i": LAST, "y": 2_000.0, "tail": 1, "open": 1, "slot": "c1"},
    ]
    assert not [point for point in points[:-2] if "tail" in point or "open" in point]


def test_a_point_without_neighbours_is_marked() -> None:
    chart = series.chart(Metric.LATENCY, make_summary(latencies={0: 10, 3: 10, 4: 10, LAST: 10}))

    alone = [(point["i"], point["slot"]) for point in datasets(chart)["points"] if "alone" in point]
    assert alone == [(0, "c1"), (LAST, "c1"), (0, "c2"), (LAST, "c2")]


def test_the_table_has_a_row_for_every_bucket_and_its_totals_add_up() -> None:
    chart = cost(make_summary({n: {"large": "1", "small": "2"} for n in range(28)}), None, MODEL, SLOTS)

    assert len(chart.table.rows) == 28
    assert sum(Decimal(row[-1].removeprefix("$")) for row in chart.table.rows) == 84


def test_one_call_that_hung_ends_at_the_axis_and_the_chart_says_so() -> None:
    usual = {number: 900 + 10 * number for number in range(LAST)}

    chart = series.chart(Metric.LATENCY, make_summary(latencies={**usual, 9: 60_000}))

    assert chart.ticks[1].values[-1] < 2_000
    assert datasets(chart)["points"][9]["y"] == chart.ticks[1].values[-1]
    assert chart.cut == "2 of 54 points beyond the axis, up to 1 min"
    assert chart.cut in chart.summary
    assert "Highest: 1 min" in chart.sentence
    assert any("1 min" in cell for cell in chart.table.rows[9])


def test_a_time_that_is_often_long_or_one_of_few_is_drawn_whole() -> None:
    often = make_summary(latencies={number: 60_000 if number % 5 == 0 else 900 for number in range(LAST)})
    few = make_summary(latencies={1: 900, 2: 60_000, 3: 900})

    for summary in (often, few):
        chart = series.chart(Metric.LATENCY, summary)
        assert chart.ticks[1].values[-1] >= 60_000
        assert (chart.cut, "beyond" in chart.summary) == ("", False)
