"""Prices before they are stored: those of the catalogue, and those entered in a form or a file, read field by field. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any

import msgspec

from runtally.errors import Detail, InvalidPrice
from runtally.fields import MAX_NAME, is_project_id, parse_whole, trimmed
from runtally.models.price import AMOUNT_COLUMNS, RATE_COLUMNS, Match, PriceEntry
from runtally.money import PRICE_DECIMALS, entered, plain
from runtally.pricing.expressions import InvalidExpression, demand_expression
from runtally.pricing.providers import provider_key
from runtally.pricing.rates import MAX_AMOUNT, InvalidRates, rates_text, read_rates, read_variants, variants_text

# Outside of these the database may store a time as infinity, which cannot be computed with.
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
MAX_PATTERN = 4000
MAX_ALIASES = 200
MAX_NOTE = 1000
YES = frozenset({"1", "true", "yes", "on"})
NO = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A future row of the registry, with the names of the columns of `PriceEntry`, in the order of the form."""

    provider: str
    model: str
    aliases: tuple[str, ...] = ()
    match: Match = Match.EXACT
    pattern: str | None = None
    project_id: str | None = None
    above_input_tokens: int = 0
    input_per_million: Decimal | None = None
    output_per_million: Decimal | None = None
    cache_read_per_million: Decimal | None = None
    cache_write_per_million: Decimal | None = None
    reasoning_per_million: Decimal | None = None
    audio_input_per_million: Decimal | None = None
    audio_output_per_million: Decimal | None = None
    per_thousand_requests: Decimal | None = None
    unit_rates: str | None = None
    variants: str | None = None
    effective_from: datetime | None = None
    effective_to: datetime | None = None
    estimated: bool = False
    note: str | None = None

    @classmethod
    def of(cls, entry: PriceEntry) -> "Draft":
        values: dict[str, Any] = {name: getattr(entry, name) for name in FIELDS}
        return cls(**values | {"aliases": tuple(entry.aliases), "match": Match(entry.match)})

    @property
    def values(self) -> dict[str, Any]:
        """The values by the names of their columns."""
        return asdict(self) | {"aliases": list(self.aliases), "match": self.match.value}

    @property
    def texts(self) -> dict[str, str]:
        """The values as the texts that `read_draft` reads."""
        return {name: as_text(value) for name, value in self.values.items()}


FIELDS: tuple[str, ...] = tuple(Draft.__dataclass_fields__)


def read_draft(sent: Mapping[str, str]) -> Draft:
    """Read a price from texts; a missing field counts as empty. Raises `InvalidPrice` with every field that is wrong."""
    check = Check(sent)
    match = check.match()
    pattern = check.pattern(match)
    draft = Draft(
        provider=provider_key(check.name("provider")),
        model=check.name("model"),
        aliases=check.aliases(),
        match=match,
        pattern=pattern,
        project_id=check.project(),
        above_input_tokens=check.tokens(),
        **{name: check.amount(name) for name in AMOUNT_COLUMNS},
        unit_rates=check.notation("unit_rates", lambda text: rates_text(read_rates(text))),
        variants=check.notation("variants", lambda text: variants_text(read_variants(text))),
        effective_from=check.time("effective_from"),
        effective_to=check.time("effective_to"),
        estimated=check.flag("estimated"),
        note=check.note(),
    )
    if not any(check.text(name) for name in (*AMOUNT_COLUMNS, "unit_rates")):
        check.fail("input_per_million", "Enter at least one amount; 0 if it is free.")
    if draft.effective_from and draft.effective_to and draft.effective_from >= draft.effective_to:
        check.fail("effective_to", "The end must come after the start.")
    check.done()
    return draft


def read_time(text: str) -> datetime | None:
    """Read a day or a time since 1970, in UTC unless it has an offset. Raises `ValueError`."""
    if not text.strip():
        return None
    at = datetime.fromisoformat(text.strip())
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    if not _FIRST <= at <= _LAST:
        raise ValueError
    return at


class Check:
    """Reads the texts of a form and collects their errors."""

    def __init__(self, sent: Mapping[str, str]) -> None:
        self._sent = sent
        self._details: list[Detail] = []

    def fail(self, name: str, message: str) -> None:
        self._details.append(Detail(name, message))

    def done(self) -> None:
        if self._details:
            raise InvalidPrice(details=tuple(self._details))

    def text(self, name: str) -> str:
        return self._sent.get(name, "").replace("\0", "").strip()

    def name(self, name: str) -> str:
        text = self.text(name)
        if not text or len(text) > MAX_NAME:
            self.fail(name, f"Give a name of 1 to {MAX_NAME} characters.")
        return text

    def aliases(self) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(filter(None, (each.strip() for each in self.text("aliases").split(",")))))
        if len(names) > MAX_ALIASES or any(len(each) > MAX_NAME for each in names):
            self.fail("aliases", f"Give at most {MAX_ALIASES} names of at most {MAX_NAME} characters.")
        return names

    def match(self) -> Match:
        text = self.text("match") or Match.EXACT
        if text not in set(Match):
            self.fail("match", f"Use one of {', '.join(Match)}.")
            return Match.EXACT
        return Match(text)

    def pattern(self, match: Match) -> str | None:
        text = self.text("pattern")
        if match is Match.EXACT:
            if text:
                self.fail(
                    "pattern", "An exact name takes no pattern. Clear the pattern, or choose another kind of match."
                )
            return None
        if not text or len(text) > MAX_PATTERN:
            self.fail("pattern", f"Give a pattern of 1 to {MAX_PATTERN} characters.")
        elif match is Match.REGEX:
            try:
                demand_expression(text)
            except InvalidExpression as error:
                self.fail("pattern", str(error))
        return text

    def project(self) -> str | None:
        text = trimmed(self.text("project_id"))
        if text and not is_project_id(text):
            self.fail(
                "project_id", "Enter the id of a project, 1 to 128 characters, or leave it empty for all projects."
            )
        return text or None

    def tokens(self) -> int:
        text = self.text("above_input_tokens").replace(",", "").replace("_", "") or "0"
        number = parse_whole(text)
        if number is None:
            self.fail("above_input_tokens", "Give a whole number, 0 for all runs.")
        return number or 0

    def amount(self, name: str) -> Decimal | None:
        text = self.text(name).replace(",", "")
        if not text:
            return None
        amount = entered(text, PRICE_DECIMALS)
        if amount is None or not 0 <= amount < MAX_AMOUNT:
            self.fail(name, f"Give a number of US dollars with at most {PRICE_DECIMALS} decimals, such as 2.50.")
            return None
        return amount

    def notation(self, name: str, written: Callable[[str], str]) -> str | None:
        """Return rates or variants as they are written, however they were entered."""
        try:
            return written(self.text(name)) or None
        except InvalidRates as error:
            self.fail(name, str(error))
            return None

    def time(self, name: str) -> datetime | None:
        try:
            return read_time(self.text(name))
        except (ValueError, OverflowError):
            self.fail(name, "Give a day such as 2026-12-01, or a time such as 2026-12-01T08:00, in UTC.")
            return None

    def flag(self, name: str) -> bool:
        text = self.text(name).lower()
        if text not in YES | NO:
            self.fail(name, "Use true or false.")
        return text in YES

    def note(self) -> str | None:
        text = self.text("note")
        if len(text) > MAX_NOTE:
            self.fail("note", f"Give at most {MAX_NOTE} characters.")
        return text or None


def amounts_of(entry: PriceEntry | Draft) -> Iterator[tuple[str, Decimal]]:
    """Yield each amount in US dollars by the name of its column or unit."""
    for name in AMOUNT_COLUMNS:
        if (usd := getattr(entry, name)) is not None:
            yield name, usd
    yield from read_rates(entry.unit_rates).items()


def as_text(value: object) -> str:
    """Return a value of a price as a text that `read_draft` reads."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case Decimal():
            return plain(value)
        case datetime():
            text = value.astimezone(UTC).isoformat().removesuffix("+00:00")
            return text.removesuffix("T00:00:00")
        case list() | tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry(Draft):
    """A price of the catalogue, which applies to all projects, before it is stored."""

    catalogue_key: str

    @property
    def amounts(self) -> tuple[Decimal | str | None, ...]:
        """The amounts that a run is charged; a change of these makes another price, any other change does not."""
        found: tuple[Decimal | str | None, ...] = _rates_of(self)
        return found

    def only_adds_to(self, other: "CatalogueEntry") -> bool:
        """Return whether it only has rates of further units and variants in addition: other runs are charged the same."""
        return (other.unit_rates, other.variants) == (None, None) and _amounts_of(self) == _amounts_of(other)


_amounts_of, _rates_of = attrgetter(*AMOUNT_COLUMNS), attrgetter(*RATE_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedEntry(CatalogueEntry):
    """An entry as the catalogue's process prints it; the day is not stored."""

    checked_on: date | None = None


class CheckedDay(msgspec.Struct, frozen=True):
    """The day on which the price was last checked, if the catalogue states it."""

    catalogue_key: str
    checked_on: date | None = None


def key_of(provider: str, model: str, start: date | None, above: int) -> str:
    """Return the key of a price in the catalogue: `google/gemini-2.5-pro@2025-06-17>200000`.

    The parts after the model are present only if set.
    """
    return f"{provider}/{model}" + (f"@{start.isoformat()}" if start else "") + (f">{above}" if above else "")
