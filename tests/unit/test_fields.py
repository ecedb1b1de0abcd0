"""What a value of a run may be."""

import sys
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.errors import InvalidPayload
from runtally.fields import MAX_PROJECT_ID, WRONG, exact, is_project_id, parse_project_id, trimmed

# No more than this many digits can stand before or after the point in Postgres.
POSTGRES_DIGITS = 16_383

decoder = msgspec.json.Decoder(float_hook=exact)
literals = st.builds(
    "{}{}.{}e{}".format, st.sampled_from(["", "-"]), st.integers(0, 9), st.sampled_from(["0", "000", "5", "25"]),
    st.integers(-30_000, 30_000) | st.integers(-310, 310),
)  # fmt: skip


@given(st.text())
def test_an_id_has_no_blanks_at_its_ends_however_often_it_is_trimmed(text: str) -> None:
    id_ = trimmed(text)

    assert trimmed(id_) == id_ == id_.strip().strip("\ufeff")
    assert id_ in text
    assert trimmed(f"\ufeff {id_}\t") == id_


def test_every_blank_of_python_and_of_javascript_is_one() -> None:
    blanks = [chr(number) for number in range(sys.maxunicode + 1) if chr(number).isspace()]

    assert all(trimmed(f"{blank}a{blank}") == "a" for blank in [*blanks, "\ufeff"])
    assert trimmed(" a b ") == "a b"


@given(literals)
def test_a_number_of_metadata_is_exact_and_one_that_postgres_keeps_or_refused(literal: str) -> None:
    try:
        number = decoder.decode(literal)
    except WRONG:
        assert abs(Decimal(literal).adjusted()) > 300
        return

    assert number == Decimal(literal)
    _, digits, exponent = number.as_tuple()
    assert -POSTGRES_DIGITS <= exponent <= POSTGRES_DIGITS - len(digits)


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\0", "a\0b", "x" * (MAX_PROJECT_ID + 1)])
def test_an_invalid_project_id_is_refused_at_its_field(text: str) -> None:
    assert not is_project_id(text)
    with pytest.raises(InvalidPayload) as refused:
        parse_project_id(text)
    assert [detail.path for detail in refused.value.details] == ["projectId"]


@pytest.mark.parametrize("text", ["a", "a/b", "..", "é 漢", "x" * MAX_PROJECT_ID])
def test_any_other_text_is_a_project(text: str) -> None:
    assert parse_project_id(text) == text
