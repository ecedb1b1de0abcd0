"""Filters are read from a query string and written back into one."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.errors import InvalidFilter
from runtally.fields import MAX_COUNT
from runtally.usage.filter import NAMES, Outcome, Period, RunFilter

NOW = datetime(2026, 11, 21, 12, 40, tzinfo=UTC)
TEXTS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=40)
AMOUNTS = st.decimals(0, 10**6, places=12)
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # Naive bounds.


def _ordered(one: st.SearchStrategy[object]) -> st.SearchStrategy[list[object]]:
    return st.lists(one, min_size=2, max_size=2, unique=True).map(sorted)  # type: ignore[arg-type]  # What each strategy makes can be compared.


@st.composite
def filters(draw: st.DrawFn) -> RunFilter:
    costs, latencies, times = (
        draw(_ordered(AMOUNTS)),
        draw(_ordered(st.integers(0, MAX_COUNT))),
        draw(_ordered(MOMENTS)),
    )
    values = {
        **{name: draw(TEXTS) for name in ("project_id", "provider", "model", "experiment_id", "trace_id", "search")},
        "status": draw(st.sampled_from(Outcome)),
        "range": draw(st.sampled_from(Period)),
        **dict(zip(("min_cost_usd", "max_cost_usd"), costs, strict=True)),
        **dict(zip(("min_latency_ms", "max_latency_ms"), latencies, strict=True)),
        **dict(zip(("since", "until"), times, strict=True)),
        "metadata_key": draw(TEXTS),
        "metadata_value": draw(TEXTS),
    }
    kept = draw(st.sets(st.sampled_from(sorted(values)))) | {"metadata_key"}
    return RunFilter(**{name: value for name, value in values.items() if name in kept})


@given(filters())
def test_a_written_value_is_read_back_unchanged(run_filter: RunFilter) -> None:
    assert RunFilter.parse(run_filter.query) == run_filter


def test_a_plain_visit_has_a_plain_address_and_blank_fields_say_nothing() -> None:
    assert RunFilter().query == {}
    assert RunFilter.parse(dict.fromkeys(NAMES.values(), " ")) == RunFilter()


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ({"status": "lost"}, {"status"}),
        ({"range": "1y"}, {"range"}),
        ({"minCost": "much"}, {"minCost"}),
        ({"minCost": "NaN"}, {"minCost"}),
        ({"maxCost": "-1"}, {"maxCost"}),
        ({"minCost": "2", "maxCost": "1"}, {"maxCost"}),
        ({"minLatency": "1.5"}, {"minLatency"}),
        ({"minLatency": "²"}, {"minLatency"}),
        ({"minLatency": "9", "maxLatency": "8"}, {"maxLatency"}),
        ({"since": "yesterday"}, {"since"}),
        ({"since": "0001-01-01T00:00+23:00"}, {"since"}),
        ({"since": "2026-11-02", "until": "2026-11-01"}, {"until"}),
        ({"metadataValue": "a"}, {"metadataKey"}),
        ({"model": "a\0b"}, {"model"}),
        ({"model": "m" * 300, "status": "lost"}, {"model", "status"}),
    ],
    ids=lambda value: str(sorted(value)),
)
def test_each_parameter_that_cannot_be_read_is_named_and_not_repeated(query: dict[str, str], wrong: set[str]) -> None:
    with pytest.raises(InvalidFilter) as raised:
        RunFilter.parse(query)

    assert {detail.path for detail in raised.value.details} == wrong
    assert "lost" not in str([detail.message for detail in raised.value.details])


def test_amounts_and_times_are_read_as_people_write_them() -> None:
    found = RunFilter.parse({"minCost": "$0.05", "since": "2026-11-18T12:00", "until": "2026-11-18T14:00+01:00"})

    assert found.min_cost_usd == Decimal("0.05")
    assert found.since == datetime(2026, 11, 18, 12, tzinfo=UTC)
    assert found.until == datetime(2026, 11, 18, 13, tzinfo=UTC)


def test_a_range_begins_where_that_of_the_report_does_and_a_chosen_time_wins() -> None:
    since = datetime(2026, 11, 1, tzinfo=UTC)

    assert RunFilter().starts_at(NOW) == datetime(2026, 11, 14, 18, tzinfo=UTC)
    assert RunFilter(range=Period.ALL).starts_at(NOW) is None
    assert RunFilter(since=since).starts_at(NOW) == since
