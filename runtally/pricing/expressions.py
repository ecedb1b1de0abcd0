"""Match model names with regular expressions by RE2, whose time grows linearly with the name.

Anybody who may write a price may write an expression that Python's own engine would take years for. So Python's engine
is never used: what RE2 does not support (looking ahead and behind, back references) is refused, with advice.
"""

from collections.abc import Container, Iterable, Iterator

import re2

MAX_BYTES = 128 * 1024
"""The most memory for an expression. One that needs more is refused; an accepted one matches a name in a few
milliseconds.
"""

_AROUND = (
    "A pattern cannot look ahead or behind. Say what it covers, as in gpt-4o(-mini)?, and give a name that it must not cover "
    "a price of its own: exact names come first."
)
_REPEAT = "Repeat with one of *, +, ? and {2,3}; a pattern never tries in vain, so that it needs no other."
_GROUP = "After (? write : for a group, P<name> for one with a name, or some of the flags i, m, s and U."
_ESCAPE = (
    r"A backslash before this letter or number means nothing here. Write alternatives instead of referring back (aa|bb), "
    r"$ instead of \Z, and \x{e9} for a character by its number."
)
_COUNT = "Repeat at most 1,000 times, counted together where one repetition is within another."
_OPEN_COUNT = "Give a count its start: {0,3} instead of {,3}."
_SIZE = "This pattern is too large. Shorten it, or count less in it."
_OTHER = "This is no regular expression: {}."
# Advice by the start of RE2's message; the first that matches is used.
_ADVICE = {
    "invalid perl operator: (?=": _AROUND,
    "invalid perl operator: (?!": _AROUND,
    "invalid perl operator: (?<": _AROUND,
    "invalid perl operator: (?>": _REPEAT,
    "invalid perl operator": _GROUP,
    "invalid named capture group": _GROUP,
    "bad repetition operator": _REPEAT,
    "invalid escape sequence": _ESCAPE,
    "invalid repetition size": _COUNT,
    "pattern too large": _SIZE,
}
# Python reads this as a count, RE2 as plain text.
_OPEN = "{,"


class InvalidExpression(ValueError):
    """An expression was refused. The message gives advice and never quotes the expression."""


def demand_expression(text: str) -> None:
    """Raise `InvalidExpression` for text that names cannot be matched with."""
    if _OPEN in text:
        raise InvalidExpression(_OPEN_COUNT)
    try:
        re2.compile(_bytes(text), _options())
    except re2.error as error:
        said = str(error.args[0], "utf-8", "replace")
        found = (advice for start, advice in _ADVICE.items() if said.startswith(start))
        # RE2 repeats the expression after the colon.
        raise InvalidExpression(next(found, _OTHER.format(said.partition(":")[0]))) from None


class Expressions:
    """Many expressions in one filter: only those that may match a name are tried."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._filter = re2.Filter()
        self._texts: list[str] = []
        invalid = set()
        for text in dict.fromkeys(texts):
            if _OPEN not in text and self._add(text):
                self._texts.append(text)
            else:
                invalid.add(text)
        self._filter.Compile()
        self.invalid = frozenset(invalid)
        """Texts that are no regular expressions; they match nothing."""

    def matching(self, name: str, among: Container[str]) -> Iterator[str]:
        """Yield the expressions among these that match the whole name, which is in lower case."""
        # RE2's filter must not be used without an expression.
        if not self._texts:
            return
        encoded = _bytes(name)
        for number in self._filter.Match(encoded, potential=True) or ():
            text = self._texts[number]
            if text in among and self._filter.re(number).fullmatch(encoded):
                yield text

    def _add(self, text: str) -> bool:
        try:
            self._filter.Add(_bytes(text), _options())
        except re2.error:
            return False
        return True


def _bytes(text: str) -> bytes:
    # Half of a surrogate pair is no character, and part of no name.
    return text.encode(errors="replace")


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = MAX_BYTES
    options.case_sensitive = False
    options.never_capture = True
    # RE2 would write the pattern to the standard error stream.
    options.log_errors = False
    return options
