"""Which of several prices is in force."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.models.price import Match, PriceSource
from runtally.pricing.book import PriceBook
from runtally.pricing.match import MAX_NAME_CHARS, PriceCandidate, PriceIndex
from tests.unit.pricing.candidates import NOW, make_candidate

DAY = timedelta(days=1)


def found(
    candidates: Iterable[PriceCandidate], provider: str, model: str, *, at: datetime = NOW, input_tokens: int = 1000
) -> tuple[int, bool] | None:
    """Number of the price that is found, and whether it is an estimate."""
    price = PriceBook(candidates).price_for(provider, model, at, input_tokens)
    return (price.id, price.estimated) if price else None


@pytest.mark.parametrize("sent", ["gpt-4o", "GPT-4o", " gpt-4o ", "gpt-4o-2024-11-20", "openai/gpt-4o", "gpt-four"])
def test_a_model_is_found_under_its_names(sent: str) -> None:
    assert found([make_candidate("openai", "gpt-4o", aliases=["GPT-four"])], "OpenAI", sent) == (1, False)


@pytest.mark.parametrize(
    "sent",
    [
        "gpt-4",
        "gpt-4o-mini",
        "gpt-4o-audio-preview",
        "gpt-4o-pro",
        "o1",
        "gpt-4o:free",
        "gpt-4o:extended",
        "",
        "gpt-4o2",
    ],
)
def test_another_model_of_the_family_is_not_found(sent: str) -> None:
    assert found([make_candidate("openai", "gpt-4o")], "openai", sent) is None


def test_another_provider_is_not_found() -> None:
    assert found([make_candidate("openai", "gpt-4o")], "groq", "gpt-4o") is None


def test_a_name_comes_before_a_pattern_and_the_longer_pattern_first() -> None:
    candidates = [
        make_candidate("acme", "any", number=1, match=Match.PREFIX, pattern="a"),
        make_candidate("acme", "large", number=2, match=Match.PREFIX, pattern="acme-L"),
        make_candidate("acme", "acme-large-2", number=3),
    ]

    assert found(candidates, "acme", "acme-large-2") == (3, False)
    assert found(candidates, "acme", "acme-large-3") == (2, False)
    assert found(candidates, "acme", "acme-small") == (1, False)


def test_a_regular_expression_must_cover_the_whole_name() -> None:
    candidates = [make_candidate("acme", "large", match=Match.REGEX, pattern=r"acme-large(-\d+)?|acme-big")]

    assert found(candidates, "acme", "ACME-large-12") == (1, False)
    assert found(candidates, "acme", "acme-big") == (1, False)
    assert found(candidates, "acme", "acme-bigger") is None


def test_the_model_of_a_pattern_is_a_title_not_a_name() -> None:
    candidates = [make_candidate("acme", "Acme family", aliases=["acme-one"], match=Match.PREFIX, pattern="acme-x")]

    assert found(candidates, "acme", "Acme family") is None
    assert found(candidates, "acme", "acme-one") == (1, False)


def test_a_pattern_that_is_no_regular_expression_prices_nothing_and_is_reported() -> None:
    index = PriceIndex(
        [make_candidate("acme", "bad", number=9, match=Match.REGEX, pattern="("), make_candidate("acme", "good")]
    )

    assert index.invalid == (9,)
    assert index.find("acme", "good")
    assert not index.find("acme", "(")


def test_the_tier_of_the_input_tokens_is_in_force_for_all_of_them() -> None:
    candidates = [
        make_candidate("google", "pro", number=1),
        make_candidate("google", "pro", number=2, above_input_tokens=200_000),
        make_candidate("google", "pro", number=3, above_input_tokens=1_000_000),
    ]

    in_force = [found(candidates, "google", "pro", input_tokens=count) for count in (0, 200_000, 200_001, 1_000_001)]

    assert in_force == [(1, False), (1, False), (2, False), (3, False)]


def test_the_period_is_that_of_the_run() -> None:
    candidates = [
        make_candidate("acme", "large", number=1, effective_to=NOW),
        make_candidate("acme", "large", number=2, effective_from=NOW, effective_to=NOW + DAY),
    ]

    assert found(candidates, "acme", "large", at=NOW - timedelta(microseconds=1)) == (1, False)
    assert found(candidates, "acme", "large", at=NOW) == (2, False)
    assert found(candidates, "acme", "large", at=NOW + DAY) is None


def test_outside_the_period_of_a_name_a_pattern_holds() -> None:
    candidates = [
        make_candidate("acme", "large", number=1, effective_from=NOW),
        make_candidate("acme", "any", number=2, match=Match.PREFIX, pattern="l"),
    ]

    assert found(candidates, "acme", "large", at=NOW - DAY) == (2, False)


def test_an_admins_price_comes_before_the_catalogues() -> None:
    candidates = [
        make_candidate("acme", "large", number=1, source=PriceSource.ADMIN),
        make_candidate("acme", "large", number=2, effective_from=NOW - DAY),
    ]

    assert found(candidates, "acme", "large") == (1, False)


def test_an_admins_pattern_wins_among_those_that_match_the_whole_name() -> None:
    patterns = [(Match.REGEX, "large.*"), (Match.PREFIX, "large-1"), (Match.REGEX, "l.*1")]
    candidates = [
        make_candidate(
            provider,
            "any",
            number=number,
            match=match,
            pattern=pattern,
            source=PriceSource.ADMIN if number == preferred else PriceSource.CATALOGUE,
        )
        for preferred, provider in enumerate(("acme", "globex", "initech"))
        for number, (match, pattern) in enumerate(patterns)
    ]

    assert [found(candidates, provider, "large-1") for provider in ("acme", "globex", "initech")] == [
        (0, False),
        (1, False),
        (2, False),
    ]


def test_the_later_start_and_then_the_newer_entry_is_preferred() -> None:
    candidates = [
        make_candidate("acme", "large", number=1, effective_from=NOW - DAY),
        make_candidate("acme", "large", number=3, effective_from=NOW - 2 * DAY),
        make_candidate("acme", "small", number=5),
        make_candidate("acme", "small", number=4),
    ]

    assert found(candidates, "acme", "large") == (1, False)
    assert found(candidates, "acme", "small") == (5, False)


def test_an_aggregators_own_price_comes_before_an_estimate_by_the_vendors() -> None:
    vendor = make_candidate("openai", "gpt-4o", number=1)
    own = make_candidate("openrouter", "openai/gpt-4o", number=2)

    assert found([vendor, own], "openrouter", "openai/gpt-4o") == (2, False)
    assert found([vendor], "openrouter", "openai/gpt-4o") == (1, True)
    assert found([vendor], "openrouter", "openai/gpt-4o:free") is None


def test_a_resold_model_costs_an_estimate_by_its_vendors_price() -> None:
    candidates = [make_candidate("openai", "gpt-4o", number=1), make_candidate("anthropic", "claude-3-opus", number=2)]

    assert found(candidates, "azure", "gpt-4o") == (1, True)
    assert found(candidates, "bedrock", "us.anthropic.claude-3-opus-20240229-v1:0") == (2, True)
    assert found(candidates, "vertex_ai", "claude-3-opus@20240229") == (2, True)


def test_an_entry_for_the_provider_as_sent_comes_first() -> None:
    candidates = [make_candidate("google", "gemini", number=1), make_candidate("Vertex_AI", "gemini", number=2)]

    assert found(candidates, "vertex-ai", "gemini") == (2, False)
    assert found(candidates, "google", "gemini") == (1, False)


@given(st.text(max_size=2 * MAX_NAME_CHARS), st.text(max_size=2 * MAX_NAME_CHARS))
def test_any_name_has_an_answer(provider: str, model: str) -> None:
    candidates = [
        make_candidate("openai", "gpt-4o"),
        make_candidate("aws", "x", match=Match.REGEX, pattern=r"(?:.*[^a-z0-9])?x\d*"),
    ]

    assert found(candidates, provider, model) in {None, (1, False), (1, True)}


@given(
    st.lists(st.tuples(st.sampled_from([0, 10, 100, 1000]), st.integers(0, 5), st.integers(1, 5)), max_size=12),
    st.integers(0, 12),
    st.integers(0, 2000),
)
def test_the_price_found_is_the_one_that_a_plain_search_finds(
    rows: list[tuple[int, int, int]], day: int, input_tokens: int
) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    candidates = [
        make_candidate(
            "acme",
            "large",
            number=number,
            above_input_tokens=above,
            effective_from=start + first * DAY,
            effective_to=start + (first + days) * DAY,
        )
        for number, (above, first, days) in enumerate(rows, start=1)
    ]

    holding = [
        (above, first, number)
        for number, (above, first, days) in enumerate(rows, start=1)
        if first <= day < first + days and (above == 0 or input_tokens > above)
    ]

    expected = (max(holding)[2], False) if holding else None
    assert found(candidates, "acme", "large", at=start + day * DAY, input_tokens=input_tokens) == expected


@pytest.mark.parametrize(("length", "expected"), [(256, (1, False)), (257, None)])
def test_a_name_of_256_characters_is_found_and_no_longer_one(length: int, expected: tuple[int, bool] | None) -> None:
    name = "m" * length

    assert found([make_candidate("acme", name)], "acme", name) == expected


@pytest.mark.parametrize("match", [Match.PREFIX, Match.REGEX])
@pytest.mark.parametrize(("length", "expected"), [(128, (1, False)), (129, None)])
def test_a_pattern_meets_names_of_128_characters_and_no_longer_ones(
    length: int, expected: tuple[int, bool] | None, match: Match
) -> None:
    pattern = "m" if match is Match.PREFIX else "m+"

    assert found([make_candidate("acme", "any", match=match, pattern=pattern)], "acme", "m" * length) == expected


def test_a_prefix_that_would_be_no_regular_expression_is_a_prefix_all_the_same() -> None:
    candidates = [
        make_candidate("acme", "any", number=1, match=Match.PREFIX, pattern="gpt-("),
        make_candidate("acme", "other", number=2, match=Match.REGEX, pattern="gpt-("),
    ]

    assert found(candidates, "acme", "gpt-(4)") == (1, False)
    assert PriceIndex(candidates).invalid == (2,)


def test_blanks_around_a_name_or_an_alias_are_none_of_it() -> None:
    assert found([make_candidate("acme", " Large ", aliases=[" GPT-4o "])], "acme", "gpt-4o") == (1, False)
    assert found([make_candidate("acme", " Large ", aliases=[" GPT-4o "])], "acme", "large") == (1, False)


@pytest.mark.parametrize(
    ("candidate", "pattern"),
    [
        (make_candidate("acme", "any", match=Match.PREFIX, pattern="Gpt-4"), "Gpt-4"),
        (make_candidate("acme", "any", match=Match.REGEX, pattern="gpt-.*"), "gpt-.*"),
        (make_candidate("acme", "gpt-4o"), None),
    ],
)
def test_it_is_told_which_pattern_covers_a_name(candidate: PriceCandidate, pattern: str | None) -> None:
    assert [step.pattern for step in PriceIndex([candidate]).look_up("acme", "gpt-4o")][:1] == [pattern]


@pytest.mark.parametrize(
    ("served", "estimated"), [("large", False), ("large:beta", False), ("large:nitro", True), ("large:thinking", True)]
)
def test_a_price_is_an_estimate_where_the_way_of_serving_may_change_it(served: str, estimated: bool) -> None:
    assert found([make_candidate("acme", "large")], "acme", served) == (1, estimated)


def test_projects_with_prices_of_their_own_are_told_from_the_others() -> None:
    for_all, own = make_candidate("acme", "large"), replace(make_candidate("acme", "large"), project_id="ours")

    assert PriceIndex([for_all, own]).projects == {"ours"}
    assert PriceIndex([for_all]).projects == set()


def test_a_look_up_says_whose_price_it_found_and_under_which_name() -> None:
    index = PriceIndex([make_candidate("openai", "gpt-4o")])

    [step] = index.look_up("azure", "gpt-4o-2024-08-06")

    assert (step.provider, step.name, step.pattern, step.is_borrowed) == ("openai", "gpt-4o", None, True)
