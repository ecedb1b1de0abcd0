"""A vendor's own report as rows: what it billed and what it counted, by day, model and whatever else it tells apart.

Files are read by the formats of `runtally import`. A file of calls is added up to rows here; of a file nothing else is kept.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from runtally.client.files import Row, RowFile
from runtally.client.formats.declaration import Format, by_name, moment, number
from runtally.client.formats.registry import FORMATS, recognised
from runtally.client.run import UnreadableFile
from runtally.errors import InvalidBill
from runtally.fields import camel
from runtally.money import to_usd
from runtally.pricing.providers import canonical
from runtally.units import TOKEN_KINDS

DAY: Final = timedelta(days=1)
MAX_ROWS: Final = 50_000
"""The rows that a bill may have after days, models and lines are added up."""
_SENT: Final = {camel(kind.count_column): kind.name for kind in TOKEN_KINDS}
"""The kind of tokens of each field of a run."""


class BillRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a vendor billed or counted on a day for a model, or beside all models."""

    day: date
    begins: int = 0
    """The minutes after midnight (UTC) at which the day begins where the vendor counts it in another zone, below 0 before it."""
    model: str | None = None
    line: str = ""
    """What the amount is for, in the vendor's words."""
    key: str = ""
    """The vendor's own id of a key, workspace or project."""
    tier: str | None = None
    region: str | None = None
    longer_than: int | None = None
    """The input tokens above which the calls were; None where the report does not tell."""
    amount_usd: Decimal | None = None
    requests: int = 0
    tokens: dict[str, int] = {}
    """Counts by the names of kinds of tokens, such as `cached_input`."""
    units: dict[str, int | float] = {}

    @property
    def place(self) -> tuple[Any, ...]:
        return (
            self.day, self.begins, self.model, self.line, self.key, self.tier, self.region, self.longer_than,
            self.amount_usd is None,
        )  # fmt: skip

    def plus(self, other: "BillRow") -> "BillRow":
        """Return the sums of two rows of one place."""
        return replace(
            self,
            amount_usd=None if self.amount_usd is None else self.amount_usd + (other.amount_usd or 0),
            requests=self.requests + other.requests,
            tokens=_added(self.tokens, other.tokens),
            units=_added(self.units, other.units),
        )


class Report(msgspec.Struct, frozen=True):
    """A file that was read: its name among formats, its digest, and its rows."""

    title: str
    digest: str
    provider: str
    rows: tuple[BillRow, ...]


def read_documents(
    documents: Iterable[tuple[str, bytes]], provider: str | None, now: datetime, until: date | None
) -> list[Report]:
    """Read reports that were sent, each with the end of its file's name. Raises what `read_report` raises."""
    with tempfile.TemporaryDirectory(prefix="runtally-bill-") as folder:
        found = []
        for number, (kind, document) in enumerate(documents, start=1):
            path = Path(folder) / f"file-{number}{kind}"
            path.write_bytes(document)
            found.append(read_report(path, provider, now, until))
        return found


def read_report(path: Path, provider: str | None, now: datetime, until: date | None = None) -> Report:
    """Read a vendor's report of usage, costs or calls, as far as it is of days before `until`.

    Raises `InvalidBill` for a file that is none, of another vendor, of several where no provider is given, in another currency,
    or of days that are not over.
    """
    rows, vendors, wanted = dict[tuple[Any, ...], BillRow](), set[str](), canonical(provider) if provider else None
    try:
        title = _read(path, wanted, rows, vendors, lambda each, line: _bill_row(each, line, now, until))
    except UnreadableFile as error:
        raise InvalidBill(error.message) from None
    if not vendors:
        raise InvalidBill(f"{path.name} has no rows of usage or costs.")
    if wanted and wanted not in vendors:
        raise InvalidBill(f"{path.name} is a report of {_names(vendors)}, not of {wanted}.")
    if "" in vendors:
        raise InvalidBill(f"{path.name} does not say whose calls it has: name the provider, such as openai.")
    if wanted is None and len(vendors) > 1:
        raise InvalidBill(f"{path.name} has {_names(vendors)}: say which of them the bill is of.")
    if not rows:
        raise InvalidBill(f"{path.name} has no rows of days before {until}.")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Report(title, digest, wanted or vendors.pop(), tuple(rows.values()))


def _names(vendors: set[str]) -> str:
    """Name a few vendors: a file may have any number of them."""
    shown = ", ".join(name[:64] for name in sorted(vendors)[:_SHOWN])
    return shown if len(vendors) <= _SHOWN else f"{shown} and others"


_SHOWN: Final = 5


def _read(
    path: Path,
    wanted: str | None,
    rows: dict[tuple[Any, ...], BillRow],
    vendors: set[str],
    made: Callable[[Mapping[str, Any], int], BillRow | None],
) -> str:
    """Add the rows of a file up, note whose they are, and return what kind of file it is."""
    format_ = None
    with RowFile(path) as file:
        for row in file:
            if not isinstance(row, Row):
                raise InvalidBill(f"Line {row.line} of {path.name} {row.reason}.")
            format_ = format_ or _format_of(path, row.values)
            try:
                for each in format_.read(by_name(row.values)):
                    # A file that does not say whose calls it has is of whom it is said to be.
                    vendors.add(vendor := canonical(str(each.get("provider") or "")) or wanted or "")
                    if wanted in {None, vendor} and (found := made(each, row.line)):
                        _add(rows, found)
            except (KeyError, TypeError, ValueError, ArithmeticError):
                raise InvalidBill(
                    f"Line {row.line} of {path.name} is not as its own format writes it; export the report again."
                ) from None
    return format_.title if format_ else ""


def _format_of(path: Path, row: Mapping[str, Any]) -> Format:
    found = recognised(dict(row))
    if found is None:
        known = ", ".join(one.title for one in FORMATS.values() if one.is_of_sums)
        raise InvalidBill(
            f"{path.name} is none of the reports that are known: {known}, or an export of calls; of any other bill give the amount."
        )
    return found


def _period(each: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """Return when a row begins and ends; a call ends as it begins."""
    if "period" not in each:
        at = moment(each.get("timestamp"))
        return at, at
    start, end = each["period"]
    return start, end or (start and start + DAY)


def _day_of(start: datetime, end: datetime) -> tuple[date, int]:
    """Return the day of a row and when that begins: of a whole day in another zone, the one that has most of it."""
    utc = start.astimezone(UTC)
    if end - start < DAY:
        return utc.date(), 0
    day = (utc + DAY / 2).date()
    return day, round((utc - datetime.combine(day, time(), UTC)) / timedelta(minutes=1))


def _bill_row(each: Mapping[str, Any], line: int, now: datetime, until: date | None) -> BillRow | None:
    """Turn a row in the fields of runs into one of a bill; None for one that is not before `until`."""
    currency = each.get("currency", "USD")
    if currency != "USD":
        raise InvalidBill(
            f"Line {line} is in {str(currency)[:8]}: only US dollars can be compared, so export the report in these."
        )
    start, end = _period(each)
    if start is None or end is None:
        raise InvalidBill(f"Line {line} has no day.")
    day, begins = _day_of(start, end)
    if until is not None and day >= until:
        return None
    if end - start > DAY:
        raise InvalidBill(f"Line {line} is of more than a day: export the report by day.")
    if end > now:
        raise InvalidBill(
            f"Line {line} is of {start:%d %B %Y}, which is not over: end before it, or leave that day out."
        )
    metadata = each.get("metadata") or {}
    tokens = {kind: _count(each.get(field), line) for field, kind in _SENT.items()}
    amount = each.get("costUSD")
    return BillRow(
        day=day,
        begins=begins,
        model=_name(each.get("model"), line),
        line=_name(metadata.get("line"), line) or "",
        key=_name(metadata.get("key") or metadata.get("workspace") or metadata.get("project"), line) or "",
        tier=_name(each.get("serviceTier"), line),
        region=_name(each.get("region"), line),
        longer_than=each.get("longerThan"),
        amount_usd=None if amount is None else to_usd(number(amount)),
        requests=_count(each.get("requests", 0 if "period" in each else 1), line),
        tokens={kind: count for kind, count in tokens.items() if count},
        units={_name(name, line) or "": count for name, count in (each.get("units") or {}).items() if count},
    )


def _name(value: object, line: int) -> str | None:
    name = str(value)[:256] if value else None
    if name and "\0" in name:
        raise InvalidBill(f"Line {line} has a name with a NUL character: export the report again.")
    return name


def _count(value: object, line: int) -> int:
    found = number(value)
    if found < 0 or found != int(found):
        raise InvalidBill(f"Line {line} has a count that is negative or not whole.")
    return int(found)


def _add(rows: dict[tuple[Any, ...], BillRow], row: BillRow) -> None:
    place = row.place
    rows[place] = rows[place].plus(row) if place in rows else row
    if len(rows) > MAX_ROWS:
        raise InvalidBill(f"The report tells more than {MAX_ROWS:,} rows apart; export it by day and model.")


def _added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def span_of(rows: Iterable[BillRow]) -> tuple[date, date]:
    """Return the first day of rows and the day after the last one."""
    days = sorted({row.day for row in rows})
    return days[0], days[-1] + DAY


def within(rows: Iterable[BillRow], since: date, until: date) -> Iterator[BillRow]:
    """Yield the rows of days from `since` to before `until`."""
    return (row for row in rows if since <= row.day < until)
