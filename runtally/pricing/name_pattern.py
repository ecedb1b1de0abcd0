"""One pattern over the names of models. Pure."""

import re
from dataclasses import dataclass, field
from typing import Self

from runtally.models.price import Match
from runtally.pricing.literals import required_literals


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A prefix, or a regular expression over the whole name; names are in lower case."""

    match: Match
    text: str
    literals: frozenset[str] = field(compare=False)
    """One of them occurs in any name that matches; to be asked first, for an expression takes its time."""
    expression: re.Pattern[str] | None = field(compare=False)

    @classmethod
    def of(cls, match: Match, text: str) -> Self:
        """Raises `re.error` for a pattern that is no regular expression."""
        if match is Match.PREFIX:
            return cls(match, text, frozenset((text.lower(),)), None)
        expression = re.compile(text, re.IGNORECASE)
        return cls(match, text, required_literals(expression), expression)

    def covers(self, name: str) -> int:
        """How many characters of the name the pattern accounts for; 0 if it does not match."""
        if self.expression is None:
            return len(self.text) if name.startswith(self.text.lower()) else 0
        return len(name) if self.expression.fullmatch(name) else 0
