"""The counts of units without columns: which are kept, and which are refused."""

import math
from decimal import Decimal
from typing import Any

import pytest

from runtally.errors import Detail
from runtally.units import FURTHER_UNITS, TOKEN_KINDS, read_units


def paths_of(sent: dict[str, Any]) -> list[str]:
    wrong: list[Detail] = []
    read_units(sent, wrong)
    return [detail.path for detail in wrong]


def test_counts_are_kept_by_name_and_those_of_nothing_are_left_out() -> None:
    sent = {
        "webSearch": 2,
        "cacheWrite1h": Decimal("504.0"),
        "images": 0,
        "pages": None,
        "not known yet": Decimal("0.5"),
    }

    assert read_units(sent, []) == {"webSearch": 2, "cacheWrite1h": 504, "not known yet": 0.5}
    assert read_units({"images": 0}, []) is None


def test_seconds_keep_six_decimals() -> None:
    assert read_units({"audioSeconds": Decimal("12.3456785000001")}, []) == {"audioSeconds": 12.345679}
    assert read_units({"audioSeconds": 12.1}, []) == {"audioSeconds": 12.1}
    assert read_units({"audioSeconds": Decimal("9007199254740990.5")}, []) == {"audioSeconds": 9007199254740990}


@pytest.mark.parametrize("count", [-1, Decimal("1.5"), 2**53, "2", True, [], math.nan, math.inf])
def test_what_is_no_count_is_refused_by_the_name_of_its_unit(count: object) -> None:
    assert paths_of({"webSearch": count}) == ["units.webSearch"]


@pytest.mark.parametrize("sent", [{"a secret": -1}, {" ": 1}, {"x" * 65: 1}, {"a\0b": 1}])
def test_a_name_that_is_not_known_is_never_repeated(sent: dict[str, Any]) -> None:
    assert paths_of(sent) == ["units"]


def test_a_part_names_a_unit_that_is_counted_in_the_same() -> None:
    names = [unit.name for unit in (*TOKEN_KINDS, *FURTHER_UNITS)]

    assert len(names) == len(set(names))
    assert all(unit.part_of is None or unit.part_of.measured is unit.measured for unit in FURTHER_UNITS)
