"""Convert the catalogue's match rules into exact names and one regular expression for all others.

The catalogue matches widely (any name that starts with `gemini-3.6-flash`), and so would put a wrong price on
`gemini-3.6-flash-lite` as soon as that exists. So after a prefix only revisions of the same model match.
"""

import re
from collections.abc import Iterator
from typing import assert_never

from genai_prices.types import (
    ClauseAnd,
    ClauseContains,
    ClauseEndsWith,
    ClauseEquals,
    ClauseOr,
    ClauseRegex,
    ClauseStartsWith,
    MatchLogic,
)

# A revision: the rest of a cut-off number, then dates, versions and words that do not change the price, then Bedrock's
# revision.
_REVISION = r"\d*(?:[-@:._](?:\d{2,8}|v\d+|latest|preview|exp|experimental|stable|beta|instruct))*(?::\d+k?)*"
# A name may begin with a region, a vendor or a path, which all end in a character that is no letter or digit.
_LEAD = r"(?:.*[^a-z0-9])?"
# The name of a fine-tuned model ends in the customer's own words.
_FINE_TUNED = re.compile(r"ft:|.*\.ft-")


def names_and_pattern(match: MatchLogic) -> tuple[tuple[str, ...], str | None]:
    """Return the exact names, and a regular expression for whole names in lower case; None if the names suffice."""
    clauses = list(_alternatives(match))
    names = tuple(dict.fromkeys(clause.equals for clause in clauses if isinstance(clause, ClauseEquals)))
    sources = [source for clause in clauses if not isinstance(clause, ClauseEquals) for source in _sources(clause)]
    if len(sources) > 1:
        return names, "|".join(f"(?:{source})" for source in dict.fromkeys(sources))
    return names, sources[0] if sources else None


def _alternatives(match: MatchLogic) -> Iterator[MatchLogic]:
    if isinstance(match, ClauseOr):
        for inner in match.or_:
            yield from _alternatives(inner)
    else:
        yield match


def _sources(clause: MatchLogic) -> Iterator[str]:
    """Return expressions over the whole name, of which it must match one."""
    match clause:
        case ClauseEquals():
            yield re.escape(clause.equals.lower())
        case ClauseStartsWith():
            yield re.escape(clause.starts_with.lower()) + _after(clause.starts_with)
        case ClauseContains():
            yield _LEAD + re.escape(clause.contains.lower()) + _after(clause.contains)
        case ClauseEndsWith():
            yield _LEAD + re.escape(clause.ends_with.lower())
        case ClauseRegex():
            yield _whole(clause.regex)
        case ClauseAnd():
            conditions = [inner for inner in clause.and_ if not _rules_out(inner)]
            # An "and" of two conditions cannot be expressed in linear time; such a model has only its exact names.
            if len(conditions) == 1:
                yield from _sources(conditions[0])
        case ClauseOr():
            for inner in clause.or_:
                yield from _sources(inner)
        case _:
            assert_never(clause)


def _rules_out(clause: MatchLogic) -> bool:
    """Return whether the clause excludes a word, such as `-tts`: a word of another product, which no revision has."""
    return isinstance(clause, ClauseRegex) and clause.regex.startswith("^(?!")


def _after(literal: str) -> str:
    return ".*" if _FINE_TUNED.match(literal) else _REVISION


def _whole(regex: str) -> str:
    """Turn a pattern that is searched for into one that matches the whole name."""
    start = "" if regex.startswith("^") else ".*"
    end = "" if regex.endswith("$") and not regex.endswith(r"\$") else ".*"
    return f"{start}(?:{regex.removeprefix('^').removesuffix('$')}){end}"
