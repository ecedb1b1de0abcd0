"""The units that vendors charge for: one row each drives costs, prices, forms, statements, sums and the wire.

The seven kinds of tokens that most calls have are columns: a record that stores counts or prices declares a field for
each, and `tests/structure/test_units.py` names those that lack one. Every further unit is a name in the map `units` of the
few runs that have it, so that a row here and its prices are all that a new one needs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from typing import Any

from runtally.errors import Detail


class Measured(StrEnum):
    """What a unit is counted in."""

    TOKENS = "tokens"
    REQUESTS = "requests"
    IMAGES = "images"
    SECONDS = "seconds"
    CHARACTERS = "characters"
    PAGES = "pages"


PER = {
    Measured.TOKENS: 1_000_000,
    Measured.REQUESTS: 1_000,
    Measured.IMAGES: 1_000,
    Measured.SECONDS: 3_600,
    Measured.CHARACTERS: 1_000_000,
    Measured.PAGES: 1_000,
}
"""How many of them a price is for."""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Something that a vendor counts and charges for."""

    name: str
    """The name of its columns; for a unit without columns, its name in the map `units`."""
    label: str
    """The name on pages and in forms."""
    meaning: str
    """The description in the comments of tables."""
    sent: str
    """The description for clients."""
    part_of: "Unit | None" = None
    """The unit whose counts include this one, which are subtracted there if the price has an amount for them. None: it is
    charged beside all others."""
    measured: Measured = Measured.TOKENS
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

    @property
    def line(self) -> str:
        """The name of its line in a cost, and of its rate in variants: `cacheRead`."""
        first, *rest = self.rate.split("_")
        return first + "".join(part.capitalize() for part in rest)


INPUT = Unit(
    "input",
    label="Input",
    meaning="Input tokens, cached ones included.",
    sent="Input tokens, cached ones included.",
    is_in_totals=True,
)
OUTPUT = Unit(
    "output",
    label="Output",
    meaning="Output tokens, reasoning included.",
    sent="Output tokens, reasoning included.",
    is_in_totals=True,
)
TOKEN_KINDS = (
    INPUT,
    OUTPUT,
    Unit(
        "cached_input",
        label="Cache read",
        meaning="Input tokens read from a cache.",
        sent="Those of the input tokens that were read from a cache.",
        part_of=INPUT,
        priced_as="cache_read",
    ),
    Unit(
        "cache_write",
        label="Cache write",
        meaning="Input tokens written to a cache.",
        sent="Those of the input tokens that were written to a cache.",
        part_of=INPUT,
    ),
    Unit(
        "reasoning",
        label="Reasoning",
        meaning="Output tokens spent on reasoning.",
        sent="Those of the output tokens that were spent on reasoning.",
        part_of=OUTPUT,
    ),
    Unit(
        "audio_input",
        label="Audio input",
        meaning="Input tokens of audio.",
        sent="Those of the input tokens that were audio.",
        part_of=INPUT,
        is_in_dimensions=False,
        sums_default="0",
    ),
    Unit(
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


def kind_named(name: str) -> Unit:
    return next(kind for kind in TOKEN_KINDS if kind.name == name)


_CACHED, _WRITTEN = kind_named("cached_input"), kind_named("cache_write")


def _part(name: str, whole: Unit, label: str, meaning: str) -> Unit:
    return Unit(name, label, meaning, meaning, whole)


def _beside(name: str, measured: Measured, label: str, meaning: str) -> Unit:
    return Unit(name, label, meaning, meaning, measured=measured)


FURTHER_UNITS = (
    _part("cacheWrite1h", _WRITTEN, "Cache write, 1 hour", "Tokens written to a cache for one hour."),
    _part("cacheWrite12h", _WRITTEN, "Cache write, 12 hours", "Tokens written to a cache for twelve hours."),
    _part("imageInput", INPUT, "Image input", "Input tokens of images."),
    _part("videoInput", INPUT, "Video input", "Input tokens of videos."),
    _part("cachedAudioInput", _CACHED, "Cache read, audio", "Input tokens of audio that were read from a cache."),
    _part("cachedImageInput", _CACHED, "Cache read, images", "Input tokens of images that were read from a cache."),
    _part("imageOutput", OUTPUT, "Image output", "Output tokens of images."),
    _beside("citationTokens", Measured.TOKENS, "Citations", "Tokens of the sources that were cited."),
    _beside("webSearch", Measured.REQUESTS, "Web searches", "Searches of the web by the vendor's own tool."),
    _beside("fileSearch", Measured.REQUESTS, "File searches", "Searches of files by the vendor's own tool."),
    _beside("codeExecution", Measured.REQUESTS, "Code containers", "Containers that ran code for the call."),
    _beside("grounding", Measured.REQUESTS, "Grounding", "Prompts that were grounded in a search."),
    _beside("searchQueries", Measured.REQUESTS, "Search queries", "Queries that the model searched for."),
    _beside("searchSources", Measured.REQUESTS, "Search sources", "Sources that a live search used."),
    _beside("searchUnits", Measured.REQUESTS, "Search units", "Searches by a model that ranks documents."),
    _beside("images", Measured.IMAGES, "Images", "Images that were made."),
    _beside("audioSeconds", Measured.SECONDS, "Audio", "Seconds of audio, heard or spoken."),
    _beside("characters", Measured.CHARACTERS, "Characters", "Characters that were spoken or translated."),
    _beside("pages", Measured.PAGES, "Pages", "Pages of documents that were read."),
)
"""The units without columns, in the order of their lines."""
FURTHER = {unit.name: unit for unit in FURTHER_UNITS}
"""The units without columns by their name on the wire."""
LINES = {unit.line: unit for unit in (*TOKEN_KINDS, *FURTHER_UNITS)}
"""All units by the name of their line, in the order of lines."""

MAX_UNITS = 32
MAX_UNIT_NAME = 64
# The largest whole number that every JSON client can send exactly, and a number that a float has with six decimals.
_MOST, _FINE = 2**53 - 1, Decimal(10) ** 9
_SIX_DECIMALS = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of tokens and of further units; None is unknown."""

    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    audio_input_tokens: int | None = None
    audio_output_tokens: int | None = None
    units: Mapping[str, int | float] | None = None


def by_whole() -> Iterator[Unit]:
    """Yield each kind that is no part of another, followed by its parts."""
    for whole in WHOLES:
        yield from (kind for kind in TOKEN_KINDS if whole in {kind, kind.part_of})


def read_units(sent: Mapping[str, Any], wrong: list[Detail]) -> dict[str, int | float] | None:
    """Return the counts of a map as it is stored, without those that are 0; None if none is left.

    A name that no row here has is kept: its unit is newer than this version. What cannot be counted is added to `wrong`.
    """
    counts: dict[str, int | float] = {}
    for name, value in sent.items():
        unit = FURTHER.get(name)
        count = (
            0 if value is None else _count(value, is_whole=unit is not None and unit.measured is not Measured.SECONDS)
        )
        if not name.strip() or len(name) > MAX_UNIT_NAME or "\0" in name:
            wrong.append(
                Detail("units", f"must have names of 1 to {MAX_UNIT_NAME} characters, not blank and without NUL")
            )
        elif count is None:
            # The name of a unit that is not known could be anything.
            wrong.append(Detail(f"units.{name}" if unit else "units", _must_be(unit)))
        elif count:
            counts[name] = count
    return counts or None


def _must_be(unit: Unit | None) -> str:
    whole = "a whole number" if unit and unit.measured is not Measured.SECONDS else "a number"
    return f"must be {whole} from 0 to 2^53 - 1" if unit else "must map names to numbers from 0 to 2^53 - 1"


def _count(value: object, *, is_whole: bool) -> int | float | None:
    """Return a count that a float has exactly, with at most six decimals; None for anything else."""
    if isinstance(value, float) and isfinite(value):
        value = Decimal(str(value))
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value <= _MOST:
        return None
    if value == int(value):
        return int(value)
    if is_whole:
        return None
    rounded = Decimal(value).quantize(_SIX_DECIMALS if value < _FINE else Decimal(1))
    return int(rounded) if rounded == int(rounded) else float(rounded)
