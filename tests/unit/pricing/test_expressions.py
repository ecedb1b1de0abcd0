"""Regular expressions over names: what they may say, and that none takes long."""

import re
import time
from collections.abc import Iterator

import pytest
from genai_prices.data import providers
from genai_prices.types import ClauseAnd, ClauseOr, ClauseStartsWith, MatchLogic
from hypothesis import given
from hypothesis import strategies as st

from runtally.models.price import Match
from runtally.pricing.catalogue_entry import CatalogueEntry
from runtally.pricing.catalogue_patterns import names_and_pattern
from runtally.pricing.expressions import Expressions, InvalidExpression, demand_expression
from runtally.pricing.match import MAX_PATTERN_CHARS, PriceIndex
from runtally.pricing.names import spellings_of
from tests.unit.pricing.candidates import make_candidate

# Python's own engine tries each of them on one of the names for longer than anybody waits.
EVIL = (
    r"(a+)+b",
    r"(a|aa)+b",
    r"(.*)*(.*)*(.*)*x",
    r"(?:[ab]*a[ab]{100}|[ab]*b[ab]{101})*c",
    r"(?:a?){300}a{300}",
    r"(?:a?){1000}",
    r"(\w+[-.]?)+!",
)
NAMES = ("a" * 127 + "-", "ab" * 64, "a-" * 64, "é" * 128)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("(?=gpt)x", "cannot look ahead or behind"),
        ("(?!.*tts).*", "cannot look ahead or behind"),
        ("(?<=a)b", "cannot look ahead or behind"),
        (r"(a)\1", "instead of referring back"),
        (r"gpt\Z", "$ instead of"),
        (r"\u00e9", "a character by its number"),
        ("a++", "Repeat with one of"),
        ("(?>a)b", "Repeat with one of"),
        ("(?x) a b", "After (? write"),
        ("(?P=name)", "After (? write"),
        ("(?P<a b>c)", "After (? write"),
        ("a{1001}", "at most 1,000 times"),
        ("a{,3}", "{0,3} instead of {,3}"),
        ("(?:.?){1000}", "too large"),
        ("(a{100}){100}", "at most 1,000 times"),
        ("secret(", "This is no regular expression: missing )."),
        ("secret[", "This is no regular expression: missing ]."),
        ("*secret", "This is no regular expression: no argument for repetition operator."),
    ],
)
def test_a_refusal_gives_advice_and_does_not_quote_the_expression(text: str, advice: str) -> None:
    with pytest.raises(InvalidExpression) as refused:
        demand_expression(text)

    assert advice in str(refused.value)
    assert "secret" not in str(refused.value)
    assert Expressions([text]).invalid == {text}


@pytest.mark.parametrize("text", EVIL)
def test_no_expression_takes_long(text: str) -> None:
    expressions = Expressions([text])
    began = time.process_time()

    found = [list(expressions.matching(name, among=(text,))) for name in NAMES]

    assert found == [[]] * len(NAMES) or text == "(?:a?){1000}"
    assert not expressions.invalid
    assert time.process_time() - began < 0.5


@given(st.text(st.sampled_from("ab|.*+?(){}[]^$\\-12,:<>=!PQ"), max_size=24), st.text("ab-é\ud800\n", max_size=140))
def test_whatever_is_written_is_refused_or_bounded(text: str, name: str) -> None:
    expressions = Expressions([text])
    began = time.process_time()

    assert list(expressions.matching(name, among=(text,))) in ([], [text])
    assert time.process_time() - began < 0.5
    if expressions.invalid:
        with pytest.raises(InvalidExpression):
            demand_expression(text)


def test_no_expression_meets_a_long_name() -> None:
    index = PriceIndex([make_candidate("acme", "x", match=Match.REGEX, pattern="(?:.*[^a-z0-9])?x.*")])

    assert index.find("acme", "x".ljust(MAX_PATTERN_CHARS, "-"))
    assert not index.find("acme", "x".ljust(MAX_PATTERN_CHARS + 1, "-"))


def test_without_expressions_nothing_matches() -> None:
    assert list(Expressions([]).matching("gpt", among=("gpt",))) == []
    assert list(Expressions(["("]).matching("(", among=("(",))) == []


def patterns_of(catalogue: list[CatalogueEntry]) -> dict[str, re.Pattern[str]]:
    texts = {entry.pattern for entry in catalogue if entry.pattern is not None}
    return {text: re.compile(text, re.IGNORECASE) for text in sorted(texts)}


# What a catalogue's pattern lets follow a name, and what it must not.
AFTER = (
    "-latest",
    "-preview-05-06",
    "@20251101",
    "-2025-11-01",
    ":1:200k",
    "-tts",
    "-preview-TTS-1",
    "-lite",
    "٣",
    "\n",
)


def known_names(catalogue: list[CatalogueEntry]) -> Iterator[str]:
    """Each name that the catalogue knows, each way to write it, and each of these with something after it."""
    names = {name for entry in catalogue for name in (entry.model, *entry.aliases)}
    written = {way for name in names for dialect in ("aws", "google", "") for way, _ in spellings_of(dialect, name)}
    for number, name in enumerate(sorted(written)):
        yield name
        if number % 3 == 0:
            yield name + AFTER[number % len(AFTER)].lower()


def test_both_engines_agree_on_all_names_of_the_catalogue(catalogue: list[CatalogueEntry]) -> None:
    # Digits of other scripts are digits to Python alone.
    texts = sorted({entry.pattern for entry in catalogue if entry.pattern is not None})
    patterns = {text: re.compile(text, re.IGNORECASE | re.ASCII) for text in texts}
    expressions = Expressions(patterns)
    assert not expressions.invalid

    for name in known_names(catalogue):
        found = sorted(expressions.matching(name, among=patterns))
        assert found == [text for text, pattern in patterns.items() if pattern.fullmatch(name)], name


def conditions(match: MatchLogic) -> Iterator[ClauseAnd]:
    for inner in match.or_ if isinstance(match, ClauseOr) else (match,):
        if isinstance(inner, ClauseAnd):
            yield inner


def test_names_that_the_catalogue_excludes_are_no_revisions() -> None:
    several = [found for provider in providers for model in provider.models for found in conditions(model.match)]
    assert several

    for clause in several:
        _, pattern = names_and_pattern(clause)
        assert pattern, clause
        first, *_ = (inner.starts_with for inner in clause.and_ if isinstance(inner, ClauseStartsWith))
        expressions = Expressions([pattern])
        for name in (first, *(first + after for after in AFTER)):
            if list(expressions.matching(name.lower(), among=(pattern,))):
                assert clause.is_match(name), name
        assert list(expressions.matching(first, among=(pattern,)))
