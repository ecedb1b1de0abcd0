"""What a format declares: how its rows are recognised, and what a row becomes. The helpers read odd values of rows."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from runtally.client.fields import is_telling, squashed

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file.

    `read` takes a row by its squashed column names and yields the calls in it, each as a row in the fields of a run; a
    row that is no call yields nothing. In a format of sums a row is a day or a model, and yields its sums in the same
    fields, `requests` and `period` (a pair of times) beside them.
    """

    name: str
    title: str
    columns: frozenset[str]
    """Squashed names of columns that all rows have, and no other format's do."""
    read: Callable[[Row], Iterator[Row]]
    known: frozenset[str] = frozenset()
    """Further squashed names that are read, or are left out for a reason."""
    is_of_sums: bool = False

    def unused(self, row: Row) -> Iterator[str]:
        """Yield the columns that look like tokens, a cost or a time, have a value and are not read."""
        for column, value in row.items():
            name = squashed(column)
            if is_telling(column) and name not in self.columns and name not in self.known and value not in _NOTHING:
                yield column


_NOTHING: tuple[Any, ...] = (None, "", 0, "0", False, {}, [])


def by_name(row: Row) -> Row:
    """Return the row by squashed names, so that `usageDetails` and `usage_details` are one."""
    return {squashed(name): value for name, value in row.items()}


def parsed(value: object) -> Any:  # noqa: ANN401  # JSON is of any type.
    """Return a value that may be JSON within a text; None where the text is none."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None


def table(value: object) -> Row:
    """Return an object, which as a map of Parquet's is a list of pairs; an empty one for all else."""
    found = parsed(value)
    try:
        return dict(found or {})
    except (TypeError, ValueError):
        return {}


def at(value: object, *names: str) -> Any:  # noqa: ANN401  # JSON is of any type.
    """Return what stands under these names, one inside the other; objects may be JSON within a text."""
    for name in names:
        found = parsed(value)
        value = found.get(name) if isinstance(found, Mapping) else None
    return value


Number = int | Decimal
# More than anything counts; to write out a larger exponent takes minutes.
_MOST = Decimal("1e40")


def number(value: object) -> Decimal:
    """Return a number, or one written as text; 0 where there is none, as NaN says too.

    Raises `ValueError` for what is no number, and for one that nothing counts.
    """
    if isinstance(value, bool) or value is None:
        return Decimal(0)
    try:
        found = Decimal(str(value).strip() or 0)
    except ArithmeticError:
        raise ValueError("has a number that cannot be read") from None
    if found.is_nan():
        return Decimal(0)
    if abs(found) > _MOST:
        raise ValueError("has a number that is too large")
    return found


def count(value: object) -> Number | None:
    """Return a count that is not 0; None where there is none. One that is not whole stays so, for its taker to refuse."""
    found = number(value)
    return (int(found) or None) if found == int(found) else found


_UNIX = re.compile(r"[0-9]{10}|[0-9]{13}")
# A number above it is of milliseconds: this is the year 5138.
_LAST_SECOND = 10**11


def moment(value: object) -> datetime | None:
    """Return a time that is ISO 8601, in UTC where it has no zone, or a number of Unix seconds or milliseconds, also as text."""
    if isinstance(value, str) and _UNIX.fullmatch(value.strip()):
        value = int(value)
    try:
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            return datetime.fromtimestamp(float(value) / (1000 if value > _LAST_SECOND else 1), UTC)
        found = datetime.fromisoformat(str(value).strip())
    except (ValueError, OverflowError, OSError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def milliseconds(start: object, end: object) -> int | None:
    """Return the time between two moments; None where one is missing or they stand in the wrong order."""
    began, ended = moment(start), moment(end)
    took = (ended - began).total_seconds() * 1000 if began and ended else -1
    return round(took) if took >= 0 else None


def error_code(*values: object) -> str:
    """Return an HTTP status or the name of an exception that one of the values begins with; "error" where none does."""
    for value in values:
        found = _STATUS.search(str(value)[:80]) or _EXCEPTION.match(str(value)[:80])
        if found:
            return found.group(0)
    return "error"


_STATUS = re.compile(r"\b[45]\d\d\b")
_EXCEPTION = re.compile(r"[A-Z]\w*(?:Error|Exception|Timeout)\b")


def filled(**fields: Any) -> Row:  # noqa: ANN401  # The values of fields are of any type.
    """Build a row of the fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, "", {}, [])}
