"""The kinds of tokens: one row each drives costs, prices, forms, statements, sums and the wire.

A record that stores counts or prices declares a field for each kind; `tests/structure/test_tokens.py` names those that lack one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class TokenKind:
    """The purpose of tokens."""

    name: str
    label: str
    """The name on pages and in forms."""
    meaning: str
    """The description in the comments of tables."""
    sent: str
    """The description for clients."""
    part_of: "TokenKind | None" = None
    """The kind whose counts include this one. Its tokens are subtracted there if the price has an amount for them."""
    priced_as: str = ""
    """The start of the names of its prices, if that is not its own name."""
    is_in_totals: bool = False
    """Whether sums of whole projects have it, besides sums by model."""
    is_in_dimensions: bool = True
    """Whether sums by tracked keys have it."""
    sums_default: str | None = None
    """An SQL default, for a kind that was added to tables with rows."""

    @property
    def count_column(self) -> str:
        return f"{self.name}_tokens"

    @property
    def rate(self) -> str:
        return self.priced_as or self.name

    @property
    def price_column(self) -> str:
        return f"{self.rate}_per_million"


INPUT = TokenKind(
    "input",
    label="Input",
    meaning="Input tokens, cached ones included.",
    sent="Input tokens, cached ones included.",
    is_in_totals=True,
)
OUTPUT = TokenKind(
    "output",
    label="Output",
    meaning="Output tokens, reasoning included.",
    sent="Output tokens, reasoning included.",
    is_in_totals=True,
)
TOKEN_KINDS = (
    INPUT,
    OUTPUT,
    TokenKind(
        "cached_input",
        label="Cache read",
        meaning="Input tokens read from a cache.",
        sent="Those of the input tokens that were read from a cache.",
        part_of=INPUT,
        priced_as="cache_read",
    ),
    TokenKind(
        "cache_write",
        label="Cache write",
        meaning="Input tokens written to a cache.",
        sent="Those of the input tokens that were written to a cache.",
        part_of=INPUT,
    ),
    TokenKind(
        "reasoning",
        label="Reasoning",
        meaning="Output tokens spent on reasoning.",
        sent="Those of the output tokens that were spent on reasoning.",
        part_of=OUTPUT,
    ),
    TokenKind(
        "audio_input",
        label="Audio input",
        meaning="Input tokens of audio.",
        sent="Those of the input tokens that were audio.",
        part_of=INPUT,
        is_in_dimensions=False,
        sums_default="0",
    ),
    TokenKind(
        "audio_output",
        label="Audio output",
        meaning="Output tokens of audio.",
        sent="Those of the output tokens that were audio.",
        part_of=OUTPUT,
        is_in_dimensions=False,
        sums_default="0",
    ),
)
"""All kinds in the order of their columns; those that are no part of another come first."""
WHOLES = tuple(kind for kind in TOKEN_KINDS if kind.part_of is None)
COUNT_COLUMNS = tuple(kind.count_column for kind in TOKEN_KINDS)
PRICE_COLUMNS = tuple(kind.price_column for kind in TOKEN_KINDS)


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of tokens; None is unknown."""

    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    audio_input_tokens: int | None = None
    audio_output_tokens: int | None = None


def kind_named(name: str) -> TokenKind:
    return next(kind for kind in TOKEN_KINDS if kind.name == name)


def by_whole(kinds: Iterable[TokenKind] = TOKEN_KINDS) -> Iterator[TokenKind]:
    """Yield each kind that is no part of another, followed by its parts."""
    listed = tuple(kinds)
    for whole in WHOLES:
        yield from (kind for kind in listed if whole in {kind, kind.part_of})
