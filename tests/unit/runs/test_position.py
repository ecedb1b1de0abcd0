"""Places are written into URLs and read back; what is none is refused."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.errors import InvalidFilter
from runtally.runs.values import Direction, Place, Position, ScanBounds

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.datetimes(timezones=st.just(UTC)), TEXTS, TEXTS)
def test_a_place_survives_its_token(at: datetime, run_id: str, project_id: str) -> None:
    place = Place(at, run_id, project_id)

    assert Place.of_token(place.token) == place
    assert Position.parse(None, place.token) == Position(Direction.NEWER, place)
    assert Position.parse(place.token, None) == Position(Direction.OLDER, place)


def test_without_a_place_one_starts_at_the_newest_run() -> None:
    assert Position.parse(None, "") == Position(Direction.OLDER, None)


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "é",
        "W10",
        "WyIyMDI2LTExLTIxVDEyOjAwOjAwIiwiYSIsImIiXQ",
        Place(datetime(2026, 11, 21, 12, tzinfo=UTC), "a\0", "b").token,
    ],
    ids=["cut", "no base64", "no place", "no time zone", "nul"],
)
def test_an_invalid_place_is_refused(token: str) -> None:
    with pytest.raises(InvalidFilter) as raised:
        Position.parse(token, None)

    assert [detail.path for detail in raised.value.details] == ["before"]


def test_bounds_of_a_scan_are_without_limit_and_not_empty_by_default() -> None:
    assert ScanBounds() == ScanBounds(begin=None, end=None, models=None, is_empty=False)
