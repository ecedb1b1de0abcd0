"""Write CSV files, in which spreadsheets do not take names from anywhere for formulas."""

import csv
import re
from collections.abc import Iterable
from io import StringIO

BOM = "\ufeff"
"""Before a CSV file, so that Excel reads it as UTF-8."""
# Also in full width, which Chinese and Japanese spreadsheets read alike, and behind this module's own apostrophe.
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")  # noqa: RUF001  # That is how they are written.
# A spreadsheet reads it as this number, and other readers of the file expect it as it is: error codes, say.
_NEGATIVE_NUMBER = re.compile(r"-[0-9]+(\.[0-9]+)?")


def guarded(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet could take for a formula."""
    return f"'{text}" if _FORMULA.match(text) and not _NEGATIVE_NUMBER.fullmatch(text) else text


def unguarded(text: str) -> str:
    """Undo `guarded`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def csv_of(rows: Iterable[Iterable[object]], *, line_end: str = "\r\n") -> str:
    """Return the text of a file with these rows, whose texts are `guarded` already."""
    file = StringIO()
    csv.writer(file, lineterminator=line_end).writerows(rows)
    return file.getvalue()
