"""Text that must occur in whatever a regular expression matches, so that most names need not meet it at all. Pure.

Cautious: of what it does not understand it says that nothing is required, and the expression is then always tried.
"""

import re
from collections.abc import Iterator

ANYTHING = ""
"""Occurs in every name."""

# Escaped characters, sets, counts, and any other character by itself.
_PART = re.compile(r"\\(?:x..|u.{4}|U.{8}|N\{[^}]*\}|\d+|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d*,?\d*\}|.", re.DOTALL)
_GROUP = "(?:"


def required_literals(expression: re.Pattern[str]) -> frozenset[str]:
    """Texts in lower case of which one occurs in any name in lower case that the expression matches."""
    if expression.flags & re.VERBOSE:
        return frozenset((ANYTHING,))
    return frozenset(_longest_literals(_PART.findall(expression.pattern)))


def _longest_literals(parts: list[str]) -> Iterator[str]:
    """The longest literal of each alternative."""
    for alternative in _alternatives(parts):
        if inner := _inside_group(alternative):
            yield from _longest_literals(inner)
        else:
            yield max(_literals(alternative), key=len)


def _depths(parts: list[str]) -> Iterator[tuple[str, int]]:
    """Each part and how many groups it is in, where the parentheses of a group are inside it."""
    depth = 0
    for part in parts:
        depth += part == "("
        yield part, depth
        depth -= part == ")"


def _alternatives(parts: list[str]) -> Iterator[list[str]]:
    alternative: list[str] = []
    for part, depth in _depths(parts):
        if part == "|" and not depth:
            yield alternative
            alternative = []
        else:
            alternative.append(part)
    yield alternative


def _inside_group(parts: list[str]) -> list[str] | None:
    """What is inside when all is one group, else None."""
    start, end = len(_GROUP), len(parts) - 1
    if parts[:start] != list(_GROUP) or any(not depth for _, depth in _depths(parts)):
        return None
    closed = [index for index, (part, depth) in enumerate(_depths(parts)) if part == ")" and depth == 1]
    return parts[start:end] if closed == [end] else None


def _literals(parts: list[str]) -> Iterator[str]:
    """The literals outside of groups, and `ANYTHING`."""
    literal = ANYTHING
    yield literal
    for part, depth in _depths(parts):
        # What is repeated is not certain to be there once, and what follows it is not next to what came before.
        if part in {"*", "?"} or part.startswith("{"):
            literal = literal[:-1]
        elif not depth and (character := _literal_character(part)):
            literal += character
            continue
        yield literal
        literal = ANYTHING
    yield literal


def _literal_character(part: str) -> str | None:
    """The one character that the part stands for, or None. Only ASCII: other letters have several lower cases."""
    character = part.removeprefix("\\") or part
    # A letter after a backslash is a class or a code, anything else is itself.
    is_literal = not character.isalnum() if len(part) > 1 else part not in ".^$*+?{}[]\\|()"
    return character.lower() if is_literal and character.isascii() and len(character) == 1 else None
