"""What charts draw and say of metrics."""

import json
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest
from altair.vegalite.v6.schema.core import load_schema

from runtally.usage.totals import Totals
from runtally.usage.window import Range
from tests.unit.charts.made import make_summary
from webapp.charts import series
from webapp.charts.chart import Chart, KeyEntry
from webapp.charts.series import Split

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
        series.cost(metrics, before, Split.MODEL, SLOTS),
        series.cost(metrics, None, Split.PROVIDER, {}),
        series.runs(metrics, before),
        series.tokens(metrics, before),
        series.errors(metrics),
        series.latency(metrics),
    ]

    for chart in charts:
        assert [error.message for error in vega_lite.iter_errors(payload(chart)["spec"])] == []


def test_an_invalid_spec_is_found(vega_lite: jsonschema_rs.Draft7Validator) -> None:
    spec = payload(series.errors(make_summary()))["spec"]
    spec["layer"][0]["mark"] = {"type": "nonsense"}

    assert list(vega_lite.iter_errors(spec))


def test_a_chart_of_nothing_has_an_axis_and_no_bars() -> None:
    chart = series.cost(make_summary(), None, Split.MODEL, SLOTS)

    assert datasets(chart)["segments"] == []
    assert parameters(chart)["y_labels"] == ["$0", "$0.25", "$0.50", "$0.75", "$1.00"]
    assert chart.key == ()
    assert chart.table.columns == ("Time (UTC)", "Total")
    assert chart.sentence == "Cost by model, per 6 hours. Last 7 days: $0.00 in total."


def test_the_costliest_is_at_the_bottom_whatever_its_colour() -> None:
    chart = series.cost(make_summary({0: {"small": "1", "large": "0.5"}}), None, Split.MODEL, SLOTS)

    bottom, top = datasets(chart)["segments"]
    assert bottom == {"i": 0, "y0": 0.0, "y1": 1.0, "slot": "c2"}
    assert top == {"i": 0, "y0": 1.0, "y1": 1.5, "slot": "c1"}
    assert chart.key == (KeyEntry("small", "c2"), KeyEntry("large", "c1"))


def test_names_without_a_colour_are_one_series_on_top() -> None:
    chart = series.cost(make_summary({0: {"large": "1", "x": "5", "y": "6"}}), None, Split.MODEL, SLOTS)

    assert chart.key == (KeyEntry("large", "c1"), KeyEntry("Other", "other"))
    assert datasets(chart)["segments"][-1] == {"i": 0, "y0": 1.0, "y1": 12.0, "slot": "other"}


def test_a_chart_shows_five_names_or_one_more_rather_than_a_rest_of_one() -> None:
    def shown(names: str) -> str:
        summary = make_summary({0: {name: str(10 - number) for number, name in enumerate(names)}})
        return "".join(series.charted(summary, Split.MODEL))

    assert shown("abc") == "abc"
    assert shown("abcdef") == "abcdef"
    assert shown("abcdefg") == "abcde"


def test_a_model_called_other_or_total_is_not_mixed_up_with_the_rest() -> None:
    slots = {"Other": "c1", "Total": "c2"}
    chart = series.cost(make_summary({0: {"Other": "4", "Total": "2", "x": "1", "y": "1"}}), None, Split.MODEL, slots)

    assert chart.table.columns == ("Time (UTC)", "Other", "Total", "Other", "Total")
    assert chart.table.rows[0][1:] == ("$4.00", "$2.00", "$2.00", "$8.00")


def test_a_model_without_cost_is_not_in_the_key() -> None:
    chart = series.cost(make_summary({0: {"large": "1", "small": "0", "rare": "2"}}), None, Split.MODEL, SLOTS)

    assert [entry.name for entry in chart.key] == ["rare", "large"]


def test_cost_by_provider_adds_up_its_models() -> None:
    metrics = make_summary({0: {"aa": "1", "ab": "2", "b": "1"}})

    chart = series.cost(metrics, None, Split.PROVIDER, {"a": "c1", "b": "c2"})

    assert chart.heading == "Cost by provider, per 6 hours"
    assert datasets(chart)["segments"][0] == {"i": 0, "y0": 0.0, "y1": 3.0, "slot": "c1"}


def test_cost_by_status_has_failed_runs_on_top() -> None:
    tallies = {
        0: Totals(
            runs=9, errors=5, timeouts=2, cost_usd=Decimal(10), error_cost_usd=Decimal(3), timeout_cost_usd=Decimal(1)
        ),
        1: Totals(runs=2, cost_usd=Decimal(2)),
    }

    chart = series.cost(make_summary(totals=tallies), None, Split.STATUS, {})

    assert chart.heading == "Cost by status, per 6 hours"
    assert chart.key == (KeyEntry("Success", "c1"), KeyEntry("Error", "bad"), KeyEntry("Timeout", "warn"))
    assert [row[1:] for row in chart.table.rows[:2]] == [
        ("$6.00", "$3.00", "$1.00", "$10.00"),
        ("$2.00", "$0.00", "$0.00", "$2.00"),
    ]
    assert datasets(chart)["segments"][2] == {"i": 0, "y0": 9.0, "y1": 10.0, "slot": "warn"}


def test_names_survive_json_and_stay_out_of_the_spec() -> None:
    name = 'odd "name" </script> \u6f22 \u2028 {{x}} \U0001f4b8'
    chart = series.cost(make_summary({0: {name: "1", "large": "2"}}), None, Split.MODEL, SLOTS | {name: "c4"})

    read = payload(chart)

    assert read["rows"] == [[name, "c4"], ["large", "c1"]]
    assert "odd" not in json.dumps(read["spec"])


def test_only_the_bucket_that_is_not_over_is_hatched() -> None:
    chart = series.cost(make_summary({0: {"large": "1"}, LAST: {"large": "1"}}), None, Split.MODEL, SLOTS)

    assert datasets(chart)["open"] == [{"i": LAST, "y": 1.0}]
    assert datasets(series.cost(make_summary({0: {"large": "1"}}), None, Split.MODEL, SLOTS))["open"] == []
    assert payload(chart)["tips"][LAST]["title"] == "Sat 21 Nov, 12:00\u201318:00 UTC, so far"


def test_the_previous_period_is_a_tick_on_every_bar_and_fits_on_the_axis() -> None:
    before = make_summary({3: {"large": "90"}}, previous=True)

    chart = series.cost(make_summary({0: {"large": "1"}}), before, Split.MODEL, SLOTS)

    assert len(datasets(chart)["previous"]) == 28
    assert datasets(chart)["previous"][3] == {"i": 3, "y": 90.0}
    assert parameters(chart)["top"] == 100
    assert chart.has_previous
    assert chart.table.columns[-1] == "Previous period"


def test_a_previous_period_without_anything_is_left_out() -> None:
    chart = series.cost(make_summary({0: {"large": "1"}}), make_summary(previous=True), Split.MODEL, SLOTS)

    assert datasets(chart)["previous"] == []
    assert not chart.has_previous
    assert "previous" not in payload(chart)["tips"][0]


def test_thirty_days_say_that_they_are_compared_with_28_days_earlier() -> None:
    metrics = make_summary({0: {"large": "2"}}, range_=Range.MONTH)
    before = make_summary({0: {"large": "1"}}, range_=Range.MONTH, previous=True)

    chart = series.cost(metrics, before, Split.MODEL, SLOTS)

    assert chart.previous_name == chart.table.columns[-1] == payload(chart)["previous"] == "28 days earlier"
    assert "$1.00 28 days earlier" in chart.sentence


def test_the_sentence_tells_total_comparison_and_peak() -> None:
    metrics = make_summary({0: {"large": "2"}, 18: {"large": "21.4"}})

    chart = series.cost(metrics, make_summary({0: {"large": "1"}}, previous=True), Split.MODEL, SLOTS)

    assert chart.sentence == (
        "Cost by model, per 6 hours. Last 7 days: $23.40 in total, $1.00 the period before. "
        "Highest: $21.40, Thu 19 Nov, 06:00\u201312:00 UTC."
    )


def test_the_tooltip_lists_the_stack_from_its_top_and_leaves_out_what_is_not_in_the_bar() -> None:
    before = make_summary({0: {"large": "7"}}, previous=True)
    metrics = make_summary({0: {"large": "2", "small": "1"}, 1: {"large": "0.02"}})

    chart = series.cost(metrics, before, Split.MODEL, SLOTS)

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
    chart = series.cost(make_summary({0: {"large": "0.1", "small": "0.2"}}), None, Split.MODEL, SLOTS)

    assert datasets(chart)["segments"][-1]["y1"] == 0.3


def test_runs_and_tokens_are_counted() -> None:
    metrics = make_summary(totals={2: Totals(runs=1_234, input_tokens=46_400_000, output_tokens=12_300_000)})

    runs, tokens = series.runs(metrics, None), series.tokens(metrics, None)

    assert runs.key == ()
    assert runs.table.rows[2][1:] == ("1,234",)
    assert payload(runs)["tips"][2]["values"] == ["1,234"]
    assert payload(runs)["tips"][3]["values"] == ["0"]
    assert tokens.table.rows[2][1:] == ("46.4M", "12.3M", "58.7M")
    assert [entry.name for entry in tokens.key] == ["Input tokens", "Output tokens"]


def test_an_error_rate_of_no_runs_is_a_gap_and_of_good_runs_is_zero() -> None:
    metrics = make_summary(totals={0: Totals(runs=10, errors=1), 1: Totals(runs=10)})

    chart = series.errors(metrics)

    points = datasets(chart)["points"]
    assert [point["y"] for point in points[:3]] == [0.1, 0.0, None]
    assert [row[1] for row in chart.table.rows[:3]] == ["10.00%", "0%", "\u2013"]
    assert chart.sentence.startswith(
        "Error rate, per 6 hours. Last 7 days: 5.00% over all runs. Highest: 10.00%, Sat 14 Nov"
    )


def test_a_latency_of_nothing_is_a_gap() -> None:
    chart = series.latency(make_summary(latencies={0: 5_100, 2: 840}))

    assert [point["y"] for point in datasets(chart)["points"][:3]] == [5_100.0, None, 840.0]
    assert [row[1] for row in chart.table.rows[:3]] == ["5.1 s", "\u2013", "840 ms"]
    assert payload(chart)["rows"][0] == ["p95 latency", "accent"]


def test_lines_of_nothing_say_so() -> None:
    errors, latency = series.errors(make_summary()), series.latency(make_summary())

    assert errors.sentence == "Error rate, per 6 hours. Last 7 days: \u2013 over all runs."
    assert parameters(errors)["y_labels"][-1] == "6.0%"
    assert parameters(latency)["y_labels"][-1] == "1,000 ms"


def test_the_line_to_the_unfinished_bucket_is_a_separate_part() -> None:
    points = datasets(series.latency(make_summary(latencies={LAST - 1: 1_000, LAST: 2_000})))["points"]

    assert points[-2:] == [
        {"i": LAST - 1, "y": 1_000.0, "tail": 1},
        {"i": LAST, "y": 2_000.0, "tail": 1, "open": 1},
    ]
    assert not [point for point in points[:-2] if "tail" in point or "open" in point]


def test_a_point_without_neighbours_is_marked() -> None:
    points = datasets(series.latency(make_summary(latencies={0: 10, 3: 10, 4: 10, LAST: 10})))["points"]

    assert [point["i"] for point in points if "alone" in point] == [0, LAST]


def test_the_table_has_a_row_for_every_bucket_and_its_totals_add_up() -> None:
    chart = series.cost(make_summary({n: {"large": "1", "small": "2"} for n in range(28)}), None, Split.MODEL, SLOTS)

    assert len(chart.table.rows) == 28
    assert sum(Decimal(row[-1].removeprefix("$")) for row in chart.table.rows) == 84
