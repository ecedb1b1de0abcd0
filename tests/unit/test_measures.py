"""The table of measures, and the SQL that follows from it."""

from runtally.models.measures import MEASURES, TOTAL_MEASURES, columns_over_runs, columns_over_sums, measures_named
from runtally.models.rollup import ROLLUP_TOTALS, ROLLUPS


def test_each_table_of_sums_has_a_key_and_the_measures_in_their_order() -> None:
    key = ["project_id", "grain", "bucket"]

    assert list(ROLLUPS.columns.keys()) == [*key, "provider", "model", *(measure.name for measure in MEASURES)]
    assert list(ROLLUP_TOTALS.columns.keys()) == [*key, *(measure.name for measure in TOTAL_MEASURES)]


def test_a_sum_over_runs_takes_the_weight_and_the_condition() -> None:
    runs, errors, cost = measures_named("cost_usd", "errors", "runs")

    assert runs.over_runs() == "sum(1)"
    assert runs.over_runs("weight") == "sum(weight)"
    assert errors.over_runs("-1") == "coalesce(sum(-1) FILTER (WHERE status = 'error'), 0)"
    assert cost.over_runs() == "coalesce(sum(cost_usd), 0)"
    assert cost.over_runs("weight") == "coalesce(sum(weight * cost_usd), 0)"


def test_counts_stay_whole_numbers_when_sums_are_added_up() -> None:
    measures = measures_named("runs", "input_tokens")

    assert columns_over_sums(measures).split(",\n         ") == [
        "sum(runs)::bigint AS runs",
        "sum(input_tokens) AS input_tokens",
    ]
    assert columns_over_runs(measures).startswith("sum(1) AS runs")
