"""`python -m runtally.pricing.catalogue_export` prints the price catalogue, one entry a line.

It runs in a process of its own, because the catalogue's package takes 100 MB and most of a second: no other module may
import this one, nor `catalogue_prices`.

The catalogue matches widely (any name that starts with `gemini-3.6-flash`), and so would put a wrong price on
`gemini-3.6-flash-lite` as soon as that exists. So its rules become exact names and one regular expression, in which only
revisions of the same model follow a prefix.

Prices are added that the package dropped, never had or has wrong, each with where it is from. Past ones were publicly
known at the time and cannot be looked up any more, so a cost computed from them is an estimate. Those in force are of the
vendor's page, as litellm 1.110.2 read it.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import pairwise
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
from runtally.pricing.catalogue_prices import Period, periods_of
from runtally.pricing.draft import CatalogueEntry, ExportedEntry, key_of

_OVER = "Price of its time, until {:%Y-%m-%d}."
_BATCH = "tier batch: x 0.5"
_GEMINI_TIERS = "tier batch: x 0.5\ntier flex: x 0.5\ntier priority: x 1.8\nregion !global: x 1.1"
_DEEPSEEK_V2, _END_OF_DEEPSEEK_V3_OFFER = datetime(2024, 5, 6, tzinfo=UTC), datetime(2025, 2, 8, 16, tzinfo=UTC)
_DEEPSEEK_V3_1, _DEEPSEEK_V3_2 = datetime(2025, 9, 5, 16, tzinfo=UTC), datetime(2025, 9, 29, tzinfo=UTC)
_DEEPSEEK = "https://api-docs.deepseek.com/quick_start/pricing."
_MISTRAL = "https://docs.mistral.ai/models/{}."
_OPENAI = "https://developers.openai.com/api/docs/pricing."

_Price = tuple[datetime | None, str, str, str | None]
"""From when on, and US dollars per million tokens of input, output and cache reads."""


def _entries(
    provider: str,
    model: str,
    *prices: _Price,
    until: datetime | None = None,
    **more: Any,  # noqa: ANN401  # Of any type.
) -> Iterator[CatalogueEntry]:
    """Yield an entry for each price, until the next one begins; `more` are further fields of all of them."""
    for (start, read, written, cached), (end, *_) in pairwise((*prices, (until, "", "", None))):
        fields: dict[str, Any] = {
            "match": Match.EXACT,
            "input_per_million": Decimal(read),
            "output_per_million": Decimal(written),
            "cache_read_per_million": None if cached is None else Decimal(cached),
            "effective_from": start,
            "effective_to": end,
            "catalogue_key": key_of(provider, model, start and start.date(), more.get("above_input_tokens", 0)),
            "estimated": end is not None,
            **more,
        }
        yield CatalogueEntry(provider=provider, model=model, **fields | ({"note": _OVER.format(end)} if end else {}))


CORRECTED_NAMES = frozenset({("mistral", "codestral-latest"), ("mistral", "mistral-large-latest")})
"""Names that the package has at a price of another time; an entry here has each."""

HISTORY = (
    *_entries(
        "deepseek", "deepseek-chat", (_DEEPSEEK_V2, "0.14", "0.28", "0.014"), until=_END_OF_DEEPSEEK_V3_OFFER,
        aliases=("deepseek-coder",), note=_DEEPSEEK,
    ),
    *_entries(
        "deepseek", "deepseek-chat", (_DEEPSEEK_V3_1, "0.56", "1.68", "0.07"), (_DEEPSEEK_V3_2, "0.28", "0.42", "0.028"),
        aliases=("deepseek-coder",), note=_DEEPSEEK,
    ),
    *_entries(
        "deepseek", "deepseek-reasoner", (_DEEPSEEK_V3_1, "0.56", "1.68", "0.07"), (_DEEPSEEK_V3_2, "0.28", "0.42", "0.028"),
        note=_DEEPSEEK,
    ),
    *(
        entry
        for model in ("deepseek-v3", "qwen2p5-coder-32b-instruct")
        for entry in _entries(
            "fireworks", model, (None, "0.9", "0.9", None),
            aliases=(f"accounts/fireworks/models/{model}",), estimated=True, note="No longer offered; price of its time.",
        )
    ),
    *(
        CatalogueEntry(
            provider="cohere",
            model=model,
            match=Match.EXACT,
            unit_rates=f"searchUnits {usd}",
            catalogue_key=key_of("cohere", model, None, 0),
            note="https://cohere.com/pricing.",
        )
        for model, usd in (
            ("rerank-v4.0-pro", "2.5"),
            ("rerank-v4.0-fast", "2"),
            ("rerank-v3.5", "2"),
            ("rerank-english-v3.0", "2"),
            ("rerank-multilingual-v3.0", "2"),
        )
    ),
    *_entries(
        "mistral", "mistral-large-latest", (None, "2", "6", None), (datetime(2025, 12, 2, tzinfo=UTC), "0.5", "1.5", "0.05"),
        variants=_BATCH, note=_MISTRAL.format("mistral-large-3-25-12"),
    ),
    *_entries(
        "mistral", "codestral-latest", (None, "0.3", "0.9", None), (datetime(2025, 7, 30, tzinfo=UTC), "0.3", "0.9", "0.03"),
        variants=_BATCH, note=_MISTRAL.format("model-cards/codestral-25-08"),
    ),
    *_entries(
        "mistral", "magistral-medium-latest", (datetime(2026, 5, 1, tzinfo=UTC), "1.5", "7.5", "0.15"),
        variants=_BATCH, note="Mistral Medium 3.5 since spring 2026: " + _MISTRAL.format("model-cards/mistral-medium-3-5-26-04"),
    ),
    *_entries(
        "mistral", "devstral-medium-latest", (None, "0.4", "2", "0.04"),
        aliases=("devstral-latest",), variants=_BATCH, note="https://mistral.ai/news/devstral-2-vibe-cli.",
    ),
    *_entries(
        "google", "gemini-4-hydrogen", (None, "1.5", "7.5", "0.075"),
        variants=_GEMINI_TIERS, note="https://aistudio.google.com/docs/pricing#gemini-4-hydrogen.",
    ),
    *(
        entry
        for model, read, written, cached in (
            ("ft:gpt-4.1-2025-04-14", "3", "12", "0.75"),
            ("ft:gpt-4.1-mini-2025-04-14", "0.8", "3.2", "0.2"),
            ("ft:gpt-4.1-nano-2025-04-14", "0.2", "0.8", "0.05"),
            ("ft:o4-mini-2025-04-16", "4", "16", "1"),
        )
        for entry in _entries("openai", model, (None, read, written, cached), variants=_BATCH, match=Match.PREFIX, pattern=model, note=_OPENAI)
    ),
    # The name without a date and a region, at the price of a region, as all other bare names have it.
    *_entries(
        "aws", "anthropic.claude-haiku-4-5", (None, "1.1", "5.5", "0.11"), cache_write_per_million=Decimal("1.375"),
        unit_rates="cacheWrite1h 2.2", variants=_BATCH, note="https://aws.amazon.com/bedrock/pricing/.",
    ),
    *_entries("openrouter", "openai/gpt-5.5:flex", (None, "2.5", "15", "0.25"), note=_OPENAI),
    *_entries("openrouter", "openai/gpt-5.5:flex", (None, "5", "22.5", "0.5"), above_input_tokens=272_000, note=_OPENAI),
    *_entries(
        "cohere", "command-a-plus-05-2026", (None, "0.8", "3.2", None),
        estimated=True, note="Azure's price, by litellm 1.110.2: Cohere names none.",
    ),
)  # fmt: skip


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
                for entry in _entries_of_period(provider.id, model.id, fresh, pattern, period):
                    yield ExportedEntry(**asdict(entry), checked_on=checked_on)
    yield from HISTORY


def checked_day(comment: str | None) -> date | None:
    """Return the latest day on which the price was checked, if the comment states one."""
    days = []
    for text in _CHECKED.findall(comment or ""):
        with suppress(ValueError):
            days.append(date.fromisoformat(text))
    return max(days, default=None)


def _entries_of_period(
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
