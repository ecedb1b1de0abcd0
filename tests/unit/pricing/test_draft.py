"""A price as people write it."""

import time
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.errors import InvalidPrice
from runtally.models.price import Match, PriceEntry
from runtally.pricing.draft import FIELDS, Draft, read_draft, read_time

START = datetime(2026, 12, 1, tzinfo=UTC)
SENT = {"provider": "Open AI", "model": "gpt-x", "input_per_million": "2.50"}
amounts = st.none() | st.decimals(0, 10**7, places=6)
times = st.none() | st.datetimes(datetime(2020, 1, 1), datetime(2039, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # Hypothesis adds it.
names = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=20)


def test_further_units_and_variants_are_kept_as_they_are_written_or_refused_by_field() -> None:
    only = {"provider": "openai", "model": "whisper", "unit_rates": " audioSeconds $0.36 "}
    draft = read_draft(only | {"variants": "tier Batch: x 0.50\r\n\r\n region us : x 1.1"})

    assert (draft.unit_rates, draft.variants) == ("audioSeconds 0.36", "tier batch: x 0.5\nregion us: x 1.1")
    assert read_draft(draft.texts) == draft
    with pytest.raises(InvalidPrice) as refused:
        read_draft(only | {"unit_rates": "holograms 3", "variants": "batch is cheap"})
    assert [detail.path for detail in refused.value.details] == ["unit_rates", "variants"]


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
        ({"input_per_million": "1e99999999"}, "input_per_million"),
        ({"input_per_million": "1e-99999999"}, "input_per_million"),
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


@pytest.mark.parametrize(
    ("field", "taken", "refused"),
    [
        ("provider", "x" * 256, "x" * 257),
        ("model", "x" * 256, "x" * 257),
        ("aliases", ",".join(map(str, range(200))), ",".join(map(str, range(201)))),
        ("aliases", "x" * 256, "a," + "x" * 257),
        ("project_id", "p" * 128, "p" * 129),
        ("project_id", "", "\x01 \x7f" * 64),
        ("above_input_tokens", "9007199254740991", "9007199254740992"),
        ("input_per_million", "0", "-0.000001"),
        ("input_per_million", "99999999.999999", "100000000"),
        ("input_per_million", "0.000001", "0.0000011"),
        ("input_per_million", "1.10000000000", "1.10000001"),
        ("effective_from", "1970-01-01", "1969-12-31T23:59:59"),
        ("effective_to", "9999-12-31", "9999-12-31T00:00:01"),
        ("note", "x" * 1000, "x" * 1001),
    ],
)
def test_a_field_is_taken_up_to_its_limit_and_not_beyond(field: str, taken: str, refused: str) -> None:
    read_draft(SENT | {field: taken})

    with pytest.raises(InvalidPrice) as error:
        read_draft(SENT | {field: refused})
    assert [detail.path for detail in error.value.details] == [field]


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"match": "fuzzy"}, "Use one of exact, prefix, regex."),
        ({"pattern": "gpt"}, "An exact name takes no pattern. Clear the pattern, or choose another kind of match."),
        ({"match": "prefix"}, "Give a pattern of 1 to 4000 characters."),
        ({"match": "regex", "pattern": "("}, "This is no regular expression: missing )."),
        ({"input_per_million": ""}, "Enter at least one amount; 0 if it is free."),
        ({"input_per_million": "x"}, "Give a number of US dollars with at most 6 decimals, such as 2.50."),
        ({"input_per_million": "0.0000001"}, "Give a number of US dollars with at most 6 decimals, such as 2.50."),
        ({"above_input_tokens": "x"}, "Give a whole number, 0 for all runs."),
        ({"effective_from": "2026-02-02", "effective_to": "2026-02-01"}, "The end must come after the start."),
        ({"estimated": "maybe"}, "Use true or false."),
    ],
)
def test_an_error_says_what_to_write(sent: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidPrice) as refused:
        read_draft(SENT | sent)

    assert [detail.message for detail in refused.value.details] == [message]


def test_all_wrong_fields_are_reported_at_once() -> None:
    sent = {"model": "", "match": "fuzzy", "input_per_million": "x", "effective_from": "soon", "estimated": "maybe"}

    with pytest.raises(InvalidPrice) as refused:
        read_draft(SENT | sent)

    assert {detail.path for detail in refused.value.details} == set(sent)


@pytest.mark.parametrize("match", [Match.PREFIX, Match.REGEX])
def test_a_pattern_has_at_most_4000_characters(match: Match) -> None:
    sent = SENT | {"match": match.value}

    assert read_draft(sent | {"pattern": "a" * 4000}).pattern == "a" * 4000
    with pytest.raises(InvalidPrice):
        read_draft(sent | {"pattern": "a" * 4001})


def test_a_prefix_may_be_no_regular_expression() -> None:
    draft = read_draft(SENT | {"match": " prefix ", "pattern": " gpt-( "})

    assert (draft.match, draft.pattern) == (Match.PREFIX, "gpt-(")


@pytest.mark.parametrize(
    ("text", "means"),
    [(text, True) for text in ("1", "true", "yes", "on", " TRUE ", "Yes")]
    + [(text, False) for text in ("", "0", "false", "no", "off", " No")],
)
def test_yes_and_no_may_be_said_in_several_words(text: str, means: bool) -> None:
    assert read_draft(SENT | {"estimated": text}).estimated is means


def test_what_is_left_empty_is_nothing_and_not_an_empty_text() -> None:
    draft = read_draft(SENT | {"pattern": " ", "project_id": " ", "note": " ", "above_input_tokens": " ", "match": ""})

    assert (draft.pattern, draft.project_id, draft.note, draft.above_input_tokens) == (None, None, None, 0)
    assert (draft.match, draft.effective_from, draft.output_per_million) == (Match.EXACT, None, None)


def test_a_price_that_has_an_amount_of_no_input_is_one() -> None:
    assert read_draft(SENT | {"input_per_million": "", "per_thousand_requests": "5"}).per_thousand_requests == 5


def test_a_time_is_of_utc_unless_it_says_otherwise() -> None:
    assert read_time(" 2026-12-01 ") == datetime(2026, 12, 1, tzinfo=UTC)
    assert read_time("2026-12-01T01:30+02:00") == datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
    assert read_time("  ") is None


def test_a_time_does_not_depend_on_the_zone_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert read_time("2026-12-01") == START
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_a_form_does_not_say_has_its_usual_value() -> None:
    assert read_draft(SENT) == Draft(provider="open-ai", model="gpt-x", input_per_million=Decimal("2.5"))
    assert not Draft(provider="open-ai", model="gpt-x").estimated


@pytest.mark.parametrize("sent", ["acme", " acme "])
def test_a_price_may_be_of_one_project(sent: str) -> None:
    assert read_draft(SENT | {"project_id": sent}).project_id == "acme"


def test_a_stored_entry_can_be_edited_as_a_draft() -> None:
    entry = PriceEntry(
        id=7, provider="acme", model="large", aliases=["a"], match="prefix", pattern="lar", above_input_tokens=5,
        input_per_million=Decimal(2), estimated=True, source="admin", created_at=START, updated_at=START,
    )  # fmt: skip

    assert Draft.of(entry) == Draft(
        provider="acme",
        model="large",
        aliases=("a",),
        match=Match.PREFIX,
        pattern="lar",
        above_input_tokens=5,
        input_per_million=Decimal(2),
        estimated=True,
    )
    assert Draft.of(entry).values["aliases"] == ["a"]


def test_a_price_is_shown_as_people_write_it() -> None:
    texts = Draft(
        provider="acme",
        model="large",
        aliases=("a", "b"),
        input_per_million=Decimal("2.500000"),
        effective_from=START,
        effective_to=datetime(2026, 12, 24, 7, 30, tzinfo=UTC),
        estimated=True,
    ).texts

    assert texts["aliases"] == "a, b"
    assert texts["input_per_million"] == "2.5"
    assert (texts["effective_from"], texts["effective_to"]) == ("2026-12-01", "2026-12-24T07:30:00")
    assert (texts["estimated"], texts["note"], texts["above_input_tokens"], texts["match"]) == (
        "true",
        "",
        "0",
        "exact",
    )


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


def test_a_zero_is_stored_without_the_exponent_that_it_was_written_with() -> None:
    draft = read_draft(
        {"provider": "globex", "model": "large", "input_per_million": "0e99999999", "output_per_million": "1"}
    )

    assert str(draft.input_per_million) == "0"
