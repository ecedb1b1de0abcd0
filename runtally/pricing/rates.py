"""The further prices of an entry as text: rates of units without columns, and variants that hold for some runs. Pure.

One notation serves forms, files, the registry and the history of prices. Rates are `cacheWrite1h 10, webSearch 10`; a
variant is a line such as `tier batch: input 2.5, output 12.5` or `region us: x 1.1`, with where it is from after a `#`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from runtally.money import PRICE_DECIMALS, USD_DECIMALS, entered, plain
from runtally.units import FURTHER, LINES, PER, Measured, Unit

MAX_AMOUNT = Decimal(10) ** 8
MAX_FACTOR = Decimal(1000)
MAX_VARIANTS = 20
MAX_LENGTH = 4000
MINUTES_A_DAY = 24 * 60
STANDARD_TIERS = frozenset({"auto", "default", "on-demand", "on_demand", "standard"})
"""What vendors call the tier of their list prices."""

_LINE = re.compile(r"(?P<when>.+?):\s+(?P<what>.+?)\s*(?:#\s*(?P<source>.+))?")
_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)")
_DAYS = re.compile(r"([1-7])(?:-([1-7]))?")
# A name that begins no other condition or comment.
_NAME = re.compile(r"[^\s;:,#]{1,64}")


class InvalidRates(Exception):
    """Text that is not in the notation; says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Other rates, or a factor on those of all tokens, for runs that meet its conditions; an empty one is met by all."""

    tiers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    """Names of regions; with `!` before them, all others that a run may name."""
    hours: tuple[tuple[int, int], ...] = ()
    """Windows of the day in UTC, as minutes since midnight; the end is exclusive, and may be before the start."""
    weekdays: tuple[int, ...] = ()
    """Days in UTC: 1 is Monday, 7 is Sunday."""
    above_input_tokens: int | None = None
    rates: Mapping[str, Decimal] = field(default_factory=dict, hash=False)
    """US dollars by the name of a line, in place of the entry's."""
    factor: Decimal | None = None
    source: str | None = None

    @property
    def is_for_some_times(self) -> bool:
        """Whether it depends on more than tier and region."""
        return bool(self.hours or self.weekdays or self.above_input_tokens is not None)

    def holds(self, tier: str | None, region: str | None, at: datetime, input_tokens: int) -> bool:
        """Return whether a run meets the conditions."""
        return (
            (not self.tiers or tier in self.tiers)
            and (not self.regions or self._is_there((region or "").lower()))
            and (self.above_input_tokens is None or input_tokens > self.above_input_tokens)
            and (not (self.hours or self.weekdays) or self._is_in_time(at.astimezone(UTC)))
        )

    def _is_there(self, region: str) -> bool:
        if region in self.regions:
            return True
        others = [name[1:] for name in self.regions if name.startswith("!")]
        return bool(others and region) and region not in others

    def _is_in_time(self, at: datetime) -> bool:
        if self.weekdays and at.isoweekday() not in self.weekdays:
            return False
        minute = 60 * at.hour + at.minute
        return not self.hours or any(
            start <= minute < end if start < end else minute >= start or minute < end for start, end in self.hours
        )

    @property
    def text(self) -> str:
        """The variant as a line."""
        what = rates_text(self.rates) if self.factor is None else f"x {plain(self.factor)}"
        return f"{self.when}: {what}" + (f" # {self.source}" if self.source else "")

    @property
    def when(self) -> str:
        """The conditions in words."""
        first, last = (self.weekdays[0], self.weekdays[-1]) if self.weekdays else (0, 0)
        is_row = last - first + 1 == len(self.weekdays) > 1
        days = f"{first}-{last}" if is_row else " ".join(map(str, self.weekdays))
        windows = " ".join(f"{_clock(start)}-{_clock(end)}" for start, end in self.hours)
        parts = (
            ("tier", " ".join(self.tiers)),
            ("region", " ".join(self.regions)),
            ("hours", windows),
            ("weekdays", days),
            ("above", "" if self.above_input_tokens is None else str(self.above_input_tokens)),
        )
        return "; ".join(f"{name} {text}" for name, text in parts if text)


def pico_per_unit(unit: Unit, usd: Decimal) -> int:
    """Convert dollars per so many of a unit to pico-dollars for one, rounded half-even."""
    return round(Fraction(usd) * Fraction(10**USD_DECIMALS, PER[unit.measured]))


def usd_per_units(unit: Unit, pico: int) -> Decimal:
    """Return the price of so many of a unit as a price is for, exactly."""
    per = PER[unit.measured]
    # A power of ten only moves the point.
    zeros = len(str(per)) - 1
    return Decimal(pico).scaleb(zeros - USD_DECIMALS) if per == 10**zeros else Decimal(pico * per).scaleb(-USD_DECIMALS)


def rates_text(rates: Mapping[str, Decimal]) -> str:
    return ", ".join(f"{name} {plain(usd)}" for name, usd in rates.items())


def variants_text(variants: Iterable[Variant]) -> str:
    return "\n".join(variant.text for variant in variants)


@lru_cache(maxsize=4096)
def read_rates(text: str | None, *, is_further: bool = True) -> Mapping[str, Decimal]:
    """Read rates by name; with `is_further` only of units without columns. Raises `InvalidRates`."""
    found: dict[str, Decimal] = {}
    for part in re.split(r"[,\n]", text or ""):
        if not (words := part.split()):
            continue
        if len(words) != 2:  # noqa: PLR2004  # A name and an amount.
            raise InvalidRates(
                "Write each rate as a name and an amount, such as webSearch 10, with commas between them."
            )
        name, amount = words
        if name not in (FURTHER if is_further else LINES):
            raise InvalidRates(f"There is no such unit. Units are {', '.join(FURTHER if is_further else LINES)}.")
        if name in found:
            raise InvalidRates(f"Name {name} once.")
        found[name] = _amount(amount)
    return {name: found[name] for name in LINES if name in found}


@lru_cache(maxsize=4096)
def read_variants(text: str | None) -> tuple[Variant, ...]:
    """Read variants, one a line. Raises `InvalidRates`."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    if len(lines) > MAX_VARIANTS or len(text or "") > MAX_LENGTH:
        raise InvalidRates(f"Give at most {MAX_VARIANTS} variants, {MAX_LENGTH:,} characters together.")
    return tuple(map(_variant, lines))


def _variant(line: str) -> Variant:
    parts = _LINE.fullmatch(line)
    if parts is None:
        raise InvalidRates(
            "Write each variant on a line of its own as conditions, a colon and rates or a factor, such as "
            "tier batch: x 0.5, or region us: x 1.1, or hours 01:00-04:00; weekdays 1-5: input 0.3, output 1.2."
        )
    conditions: dict[str, list[str]] = {}
    for condition in parts["when"].split(";"):
        name, *values = condition.split()
        if name not in _READERS or not values or name in conditions:
            raise InvalidRates(
                "Conditions are tier, region, hours, weekdays and above, each once, with semicolons between them."
            )
        conditions[name] = values
    read: dict[str, Any] = dict(value for name, values in conditions.items() for value in _READERS[name](values))
    what = parts["what"].strip()
    source = parts["source"] or None
    if what.startswith("x "):
        factor = _amount(what[2:].strip(), MAX_FACTOR)
        return Variant(**read, factor=factor, source=source)
    rates = read_rates(what, is_further=False)
    if not rates:
        raise InvalidRates("A variant needs rates, such as input 2.5, or a factor, such as x 0.5.")
    return Variant(**read, rates=rates, source=source)


def _amount(text: str, most: Decimal = MAX_AMOUNT) -> Decimal:
    amount = entered(text, PRICE_DECIMALS)
    if amount is None or not 0 <= amount < most:
        raise InvalidRates(
            f"Give amounts in US dollars, such as 2.50, and factors such as 0.5, with at most {PRICE_DECIMALS} decimals."
        )
    return Decimal(plain(amount))


def _names(field_name: str, values: list[str]) -> Iterator[tuple[str, object]]:
    if not all(map(_NAME.fullmatch, values)):
        raise InvalidRates("Names of tiers and regions have up to 64 characters, without colons and semicolons.")
    yield field_name, tuple(value.lower() for value in values)


def _hours(values: list[str]) -> Iterator[tuple[str, object]]:
    windows = [_WINDOW.fullmatch(value) for value in values]
    found = [tuple(map(int, window.groups())) for window in windows if window]
    spans = [(60 * a + b, 60 * c + d) for a, b, c, d in found]
    if len(spans) < len(values) or any(start == end or end > MINUTES_A_DAY for start, end in spans):
        raise InvalidRates("Give hours in UTC such as 01:00-04:00, with blanks between several.")
    yield "hours", tuple(spans)


def _weekdays(values: list[str]) -> Iterator[tuple[str, object]]:
    days: list[int] = []
    for value in values:
        found = _DAYS.fullmatch(value)
        if found is None or (found[2] and found[2] < found[1]):
            raise InvalidRates("Give weekdays as numbers, 1 for Monday to 7 for Sunday, such as 1-5.")
        days += range(int(found[1]), int(found[2] or found[1]) + 1)
    yield "weekdays", tuple(sorted(set(days)))


def _above(values: list[str]) -> Iterator[tuple[str, object]]:
    text = values[0].replace(",", "").replace("_", "")
    if len(values) != 1 or not text.isascii() or not text.isdecimal() or len(text) > len(str(10**12)):
        raise InvalidRates("Give the number of input tokens above which the variant holds, such as above 200000.")
    yield "above_input_tokens", int(text)


_READERS = {
    "tier": lambda values: _names("tiers", values),
    "region": lambda values: _names("regions", values),
    "hours": _hours,
    "weekdays": _weekdays,
    "above": _above,
}


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def per_text(unit: Unit) -> str:
    """Return what a price of the unit is for, such as `per 1,000 requests`."""
    per = PER[unit.measured]
    return "per hour" if unit.measured is Measured.SECONDS else f"per {per:,} {unit.measured}"
