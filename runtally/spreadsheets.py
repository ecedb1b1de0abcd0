"""Text in CSV files, which people open with spreadsheets: names that come from anywhere must be no formulas there."""

import re

# Also in the widths that Chinese and Japanese spreadsheets read as the same, and behind what this module wrote before.
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")  # noqa: RUF001  # That is how they are written.


def guarded(text: str) -> str:
    """The text, with an apostrophe before it if a spreadsheet could take it for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def unguarded(text: str) -> str:
    """What `guarded` made this of."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
