"""`python -m runtally.pricing.catalogue_export` prints the price catalogue, one entry a line.

It runs in a process of its own, because the catalogue's package takes 100 MB and most of a second: no other module may
import this one, nor `catalogue_prices`.

The catalogue matches widely (any name that starts with `gemini-3.6-flash`), and so would put a wrong price on
`gemini-3.6-flash-lite` as soon as that exists. So its rules become exact names and one regular expression, in which only
revisions of the same model follow a prefix.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, date, datetime, time
from typing import Any, assert_never

import msgspec
from genai_prices.data import providers
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

from runtally.models.price import Match
from runtally.pricing.catalogue_entry import CatalogueEntry, ExportedEntry, key_of
from runtally.pricing.catalogue_history import CORRECTED_NAMES, HISTORY
from runtally.pricing.catalogue_prices import Period, periods_of

# Names that the catalogue's patterns match and our narrower ones do not, of models that share one price.
_MORE_NAMES = {
    ("anthropic", "claude-2"): ("claude-2.0", "claude-2.1"),
    # Names of whatever is newest: the vendors' pages, 2026-11-27.
    ("anthropic", "claude-opus-5-5"): ("claude-opus-latest",),
    ("anthropic", "claude-sonnet-5-5"): ("claude-sonnet-latest",),
    ("openai", "gpt-6.1-sol"): ("gpt-sol-latest",),
    # An alias of the model since 2024-09-05: https://api-docs.deepseek.com/updates.
    ("deepseek", "deepseek-chat"): ("deepseek-coder",),
    ("google", "gemma-3"): ("gemma-3-1b-it", "gemma-3-4b-it", "gemma-3-12b-it", "gemma-3-27b-it"),
    ("google", "gemma-3n"): ("gemma-3n-e2b-it", "gemma-3n-e4b-it"),
}


# The catalogue has no field for this day; some of its comments tell it.
_CHECKED = re.compile(r"(?:checked|verified|confirmed)\b(?:[^.;]|\.(?=\S)){0,60}?\b(20\d\d-\d\d-\d\d)\b", re.IGNORECASE)


def entries() -> Iterator[CatalogueEntry]:
    for provider in providers:
        # If two models have the same name, the catalogue means the first.
        taken = {name for of, name in CORRECTED_NAMES if of == provider.id}
        for model in provider.models:
            names, pattern = names_and_pattern(model.match)
            more = _MORE_NAMES.get((provider.id, model.id), ())
            if pattern is None:
                names = (*names, *more)
            else:
                # These names go into the pattern, so that a price of its time with the exact name comes first.
                pattern = "|".join((pattern, *map(re.escape, more)))
            fresh = tuple(name for name in dict.fromkeys(map(str.lower, names)) if name not in taken)
            taken.update(fresh)
            checked_on = checked_day(model.price_comments) or checked_day(provider.price_comments)
            for period in periods_of(provider.id, model):
                for entry in _entries(provider.id, model.id, fresh, pattern, period):
                    yield ExportedEntry(**asdict(entry), checked_on=checked_on)
    yield from HISTORY


def checked_day(comment: str | None) -> date | None:
    """Return the latest day on which the price was checked, if the comment states one."""
    days = []
    for text in _CHECKED.findall(comment or ""):
        with suppress(ValueError):
            days.append(date.fromisoformat(text))
    return max(days, default=None)


def _entries(
    provider: str, model: str, names: tuple[str, ...], pattern: str | None, period: Period
) -> Iterator[CatalogueEntry]:
    amounts: dict[str, Any]
    for above, amounts in period.tiers.items():
        yield CatalogueEntry(
            provider=provider,
            model=model,
            aliases=tuple(name for name in names if pattern is not None or name != model.lower()),
            match=Match.REGEX if pattern is not None else Match.EXACT,
            pattern=pattern,
            above_input_tokens=above,
            **amounts,
            effective_from=_midnight(period.start),
            effective_to=_midnight(period.end),
            estimated=period.estimated,
            catalogue_key=key_of(provider, model, period.start, above),
            note=period.note,
        )


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)


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


def main() -> None:
    encode = msgspec.json.Encoder().encode
    for entry in entries():
        sys.stdout.buffer.write(encode(entry) + b"\n")


if __name__ == "__main__":
    main()
