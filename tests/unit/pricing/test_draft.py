"""A price as people write it."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.errors import InvalidPrice
from runtally.models.price import Match
from runtally.pricing.draft import FIELDS, Draft, read_draft

SENT = {"provider": "Open AI", "model": "gpt-x", "input_per_million": "2.50"}
amounts = st.none() | st.decimals(0, 10**7, places=6)
times = st.none() | st.datetimes(datetime(2020, 1, 1), datetime(2039, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # Hypothesis adds it.
names = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=20)


def test_a_form_becomes_a_price() -> None:
    draft = read_draft(
        SENT
        | {
            "aliases": " a, b ,,a",
            "output_per_million": "$1,000",
            "above_input_tokens": "200,000",
            "effective_from": "2026-12-01",
            "effective_to": "2026-12-24T08:30+01:00",
            "estimated": "1",
            "note": " Our contract. ",
        }
    )

    assert draft == Draft(
        provider="open-ai",
        model="gpt-x",
        aliases=("a", "b"),
        input_per_million=Decimal("2.50"),
        output_per_million=Decimal(1000),
        above_input_tokens=200_000,
        effective_from=datetime(2026, 12, 1, tzinfo=UTC),
        effective_to=datetime(2026, 12, 24, 7, 30, tzinfo=UTC),
        estimated=True,
        note="Our contract.",
    )


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"provider": " "}, "provider"),
        ({"model": ""}, "model"),
        ({"model": "x" * 2000}, "model"),
        ({"aliases": ",".join(map(str, range(300)))}, "aliases"),
        ({"match": "fuzzy"}, "match"),
        ({"pattern": "gpt"}, "pattern"),
        ({"match": "prefix"}, "pattern"),
        ({"match": "regex", "pattern": "("}, "pattern"),
        ({"above_input_tokens": "-1"}, "above_input_tokens"),
        ({"above_input_tokens": "1.5"}, "above_input_tokens"),
        ({"input_per_million": "-1"}, "input_per_million"),
        ({"input_per_million": "free"}, "input_per_million"),
        ({"input_per_million": "NaN"}, "input_per_million"),
        ({"input_per_million": "1e9"}, "input_per_million"),
        ({"input_per_million": "0.0000001"}, "input_per_million"),
        ({"input_per_million": ""}, "input_per_million"),
        ({"per_thousand_requests": "x"}, "per_thousand_requests"),
        ({"effective_from": "soon"}, "effective_from"),
        ({"effective_from": "0001-01-01"}, "effective_from"),
        ({"effective_to": "9999-12-31T23:59:59.999999"}, "effective_to"),
        ({"effective_to": "9999-12-31T23:59-01:00"}, "effective_to"),
        ({"effective_from": "2026-02-01", "effective_to": "2026-02-01"}, "effective_to"),
        ({"estimated": "maybe"}, "estimated"),
        ({"note": "x" * 2000}, "note"),
    ],
)
def test_an_error_is_reported_at_its_field(sent: dict[str, str], field: str) -> None:
    with pytest.raises(InvalidPrice) as refused:
        read_draft(SENT | sent)

    assert [detail.path for detail in refused.value.details] == [field]


drafts = st.builds(
    Draft,
    provider=st.just("globex"),
    model=names,
    aliases=st.lists(names, max_size=3, unique=True).map(tuple),
    match=st.just(Match.REGEX),
    pattern=names,
    above_input_tokens=st.integers(0, 10**6),
    input_per_million=amounts,
    output_per_million=st.just(Decimal(1)),
    effective_from=times,
    estimated=st.booleans(),
)


@given(drafts)
def test_a_written_value_is_read_back_unchanged(draft: Draft) -> None:
    assert set(draft.texts) == set(FIELDS)
    assert read_draft(draft.texts) == draft
