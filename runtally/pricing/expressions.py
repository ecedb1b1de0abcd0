"""Regular expressions over the names of models, by an engine whose time grows with the name and no faster: RE2.

Whoever may write a price may write an expression over which Python's own engine would think for years. So none ever meets
it: what RE2 cannot decide (looking ahead and behind, referring back) is refused, with what to write instead.
"""

from collections.abc import Container, Iterable, Iterator

import re2

MAX_BYTES = 128 * 1024
"""Of memory for an expression: what needs more is refused, and what is accepted decides on a name in a few milliseconds."""

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
# How what RE2 says begins, the first that fits.
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
# A count to Python, and plain text to RE2.
_OPEN = "{,"


class InvalidExpression(ValueError):
    """Says what to write instead, and nothing of what was written."""


def demand_expression(text: str) -> None:
    """Raises `InvalidExpression` for what names cannot be matched with."""
    if _OPEN in text:
        raise InvalidExpression(_OPEN_COUNT)
    try:
        re2.compile(_bytes(text), _options())
    except re2.error as error:
        said = str(error.args[0], "utf-8", "replace")
        found = (advice for start, advice in _ADVICE.items() if said.startswith(start))
        # After the colon it repeats what was written.
        raise InvalidExpression(next(found, _OTHER.format(said.partition(":")[0]))) from None


class Expressions:
    """Many of them, of which only those are tried that a look at the name does not rule out."""

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
        """Those that are no regular expressions; they match nothing."""

    def matching(self, name: str, among: Container[str]) -> Iterator[str]:
        """Those among these that cover the whole name, which is in lower case."""
        # A filter without an expression is none, and must not be asked.
        if not self._texts:
            return
        told = _bytes(name)
        for number in self._filter.Match(told, potential=True) or ():
            text = self._texts[number]
            if text in among and self._filter.re(number).fullmatch(told):
                yield text

    def _add(self, text: str) -> bool:
        try:
            self._filter.Add(_bytes(text), _options())
        except re2.error:
            return False
        return True


def _bytes(text: str) -> bytes:
    # Half of a pair of surrogates is no character, and nobody's name.
    return text.encode(errors="replace")


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = MAX_BYTES
    options.case_sensitive = False
    options.never_capture = True
    # It would write the pattern to the standard error stream.
    options.log_errors = False
    return options
