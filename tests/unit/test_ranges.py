"""Calendar ranges begin and end at midnight: days where the reader is, months of UTC."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from webapp import zone
from webapp.zone import Calendar, calendar_in

NOW = datetime(2026, 11, 23, 2, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "since", "until"),
    [
        ("today", "2026-11-22T08:00", "2026-11-23T08:00"),
        ("yesterday", "2026-11-21T08:00", "2026-11-22T08:00"),
        ("this-month", "2026-11-01T00:00", "2026-12-01T00:00"),
        ("last-month", "2026-10-01T00:00", "2026-11-01T00:00"),
        ("90d", "2026-08-25T00:00", "2026-11-24T00:00"),
        ("12m", "2025-11-24T00:00", "2026-11-24T00:00"),
        ("12mo", "2025-12-01T00:00", "2026-12-01T00:00"),
    ],
)
def test_days_are_of_the_reader_and_months_of_utc(name: str, since: str, until: str) -> None:
    before = zone.current()
    zone.use(ZoneInfo("America/Los_Angeles"))
    try:
        span = Calendar(name).span(NOW)
        is_of_utc = Calendar(name).label.endswith("(UTC)")
    finally:
        zone.use(before)

    assert (f"{span.since:%Y-%m-%dT%H:%M}", f"{span.until:%Y-%m-%dT%H:%M}") == (since, until)
    assert is_of_utc is (name not in {"today", "yesterday"})


def test_the_day_on_which_clocks_change_has_its_own_length() -> None:
    before = zone.current()
    zone.use(ZoneInfo("Europe/Berlin"))
    try:
        span = Calendar.TODAY.span(datetime(2026, 10, 25, 12, tzinfo=UTC))
    finally:
        zone.use(before)

    assert (span.until - span.since).total_seconds() == 25 * 3600


def test_a_query_with_times_of_its_own_names_no_calendar_range() -> None:
    assert calendar_in({"range": "today"}) is Calendar.TODAY
    assert calendar_in({"range": "7d"}) is None
    assert calendar_in({"range": "today", "since": "2026-11-01"}) is None
