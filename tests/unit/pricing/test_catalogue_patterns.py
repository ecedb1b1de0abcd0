"""The expressions of the catalogue, over all names that it knows."""

import re
from collections.abc import Iterator

from genai_prices.data import providers
from genai_prices.types import ClauseAnd, ClauseOr, ClauseStartsWith, MatchLogic

from runtally.pricing.catalogue_export import names_and_pattern
from runtally.pricing.draft import CatalogueEntry
from runtally.pricing.expressions import Expressions
from runtally.pricing.match import spellings_of

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
