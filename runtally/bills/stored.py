"""Rows of bills as the table has them: plain JSON, amounts as text with all their digits."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from runtally.bills.rows import BillRow


def as_stored(rows: Sequence[BillRow]) -> list[dict[str, Any]]:
    """Return rows as JSON."""
    found: list[dict[str, Any]] = msgspec.to_builtins(rows)
    return found


def stored_rows(stored: Sequence[Mapping[str, Any]]) -> list[BillRow]:
    """Return the rows of JSON that `as_stored` made."""
    return msgspec.convert(stored, list[BillRow])
