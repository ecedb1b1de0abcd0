"""What must occur in a name before an expression is tried on it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.models.price import Match
from runtally.pricing.catalogue_entry import CatalogueEntry
from runtally.pricing.literals import ANYTHING, required_literals
from runtally.pricing.match import MAX_PATTERN_CHARS, PriceIndex
from runtally.pricing.name_pattern import NamePattern
from tests.unit.pricing.offers import make_offer, offers_of

# Of the characters at which a region, a vendor or a path may end, which is where an expression starts to look.
MADE_UP = [(f"{separator}x{separator}us" * 64)[:length] for separator in "-.:@_" for length in (60, 128, 247)]


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        (r"gpt\-4o(?:-\d+)?", {"gpt-4o"}),
        (r"(?:.*[^a-z0-9])?claude\-v2\d*", {"claude-v2"}),
        (r"(?:Nova-pro\d*)|(?:(?:us\.)nova-lite)", {"nova-pro", "nova-lite"}),
        (r"(?:(?:a-one)|(?:b-two))", {"a-one", "b-two"}),
        (r"(?:a-one)(?:b-two)", {ANYTHING}),
        (r"ab?c+d{0,2}ef", {"ef"}),
        (r"ab*|cd", {"a", "cd"}),
        (r"[(|]x\[y\]", {"x[y]"}),
        (r"x\dy\\z", {"y\\z"}),
        (r"a\x41\u0042\07b", {"a"}),
        (r"(?=gemini)(?!tts).*", {ANYTHING}),
        (r"(?x) large  # words", {ANYTHING}),
        (r"éüß", {ANYTHING}),
        (r"", {ANYTHING}),
    ],
)
def test_the_longest_text_outside_of_groups_is_required_of_each_alternative(pattern: str, literals: set[str]) -> None:
    assert required_literals(re.compile(pattern, re.IGNORECASE)) == literals


_pieces = st.sampled_from(
    [*"abcAB1-.|?*+(){}[]^$\\", "(?:", r"\d", r"\.", r"\x61", r"\1", "[ab]", "{2}", "{0,1}", "a+", "(?=", "(?!"]
)


@given(st.lists(_pieces, max_size=8).map("".join), st.text("abc1-.", max_size=8))
def test_no_match_is_without_a_required_literal(pattern: str, name: str) -> None:
    try:
        expression = re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, FutureWarning):
        return

    if expression.fullmatch(name):
        assert any(literal in name for literal in required_literals(expression))


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Fills with the patterns that are tried and the names they are tried on."""
    tried: list[tuple[str, str]] = []
    covers = NamePattern.covers

    def counted(pattern: NamePattern, name: str) -> int:
        tried.append((pattern.text, name))
        return covers(pattern, name)

    monkeypatch.setattr(NamePattern, "covers", counted)
    return tried


@pytest.mark.parametrize("provider", ["aws", "google", "openrouter", "azure"])
def test_a_made_up_name_meets_hardly_any_expression(
    provider: str, catalogue: list[CatalogueEntry], tried: list[tuple[str, str]]
) -> None:
    index = PriceIndex(offers_of(catalogue))

    for name in MADE_UP:
        assert index.find(provider, name) == ()

    # Four of Google's patterns only say in a condition what must occur; they begin with it, and so are cheap.
    assert len(tried) <= 4 * len(MADE_UP)


def test_no_expression_meets_a_long_name(tried: list[tuple[str, str]]) -> None:
    index = PriceIndex([make_offer("acme", "x", match=Match.REGEX, pattern="(?:.*[^a-z0-9])?x.*")])

    assert index.find("acme", "x".ljust(MAX_PATTERN_CHARS, "-"))
    assert not index.find("acme", "x".ljust(MAX_PATTERN_CHARS + 1, "-"))
    assert len(tried) == 1
