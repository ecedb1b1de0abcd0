"""Write the registry as a CSV file, and apply one line by line.

A line with an id corrects that entry, one without an id adds a price; entries that the file leaves out stay as they
are.
"""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor
from runtally.errors import Detail, InvalidPrice, NotFound
from runtally.fields import MAX_ROW, parse_whole
from runtally.models.price import PriceEntry
from runtally.pricing import entries
from runtally.pricing.draft import FIELDS, Draft, read_draft
from runtally.spreadsheets import guarded, unguarded

HEADER = ("id", *FIELDS)
MAX_LINES = 10_000
_MOST_NAMED = 5


class Effect(StrEnum):
    """The effect of a line."""

    ADD = "add"
    CORRECT = "correct"
    NOTHING = "nothing"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class LineEffect:
    """A line of the file and its effect: `fields` are name, old and new value."""

    line: int
    effect: Effect
    name: str
    values: Mapping[str, str]
    fields: tuple[tuple[str, str, str], ...] = ()
    problems: tuple[Detail, ...] = ()


async def write(session: AsyncSession) -> str:
    """Write all entries that are in force, or will be."""
    query = select(PriceEntry).where(col(PriceEntry.withdrawn_at).is_(None))
    order = (col(PriceEntry.provider), col(PriceEntry.model), col(PriceEntry.above_input_tokens), col(PriceEntry.id))
    rows = await session.exec(query.order_by(*order))
    return text_of({"id": str(row.id), **Draft.of(row).texts} for row in rows)


def text_of(rows: Iterable[Mapping[str, str]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, HEADER, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: guarded(value) for name, value in row.items()} for row in rows)
    return file.getvalue()


def read(text: str) -> tuple[Mapping[str, str], ...]:
    """Read the lines by column. Raises `InvalidPrice` for a file of another form."""
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")), restval="")
    try:
        columns = tuple(reader.fieldnames or ())
    except csv.Error:
        columns = ()
    if why := _wrong_columns(columns):
        raise InvalidPrice.at("file", why)
    try:
        rows = tuple(
            {name: unguarded(value) for name, value in row.items() if isinstance(value, str)} for row in reader
        )
    except csv.Error:
        rows = ()
    if not rows or len(rows) > MAX_LINES:
        raise InvalidPrice.at("file", f"Send a CSV file of 1 to {MAX_LINES:,} lines.")
    return rows


def _wrong_columns(columns: Sequence[str]) -> str:
    """Return what is wrong with the first line; nothing where it is right. What it says is not repeated: it may be anything."""
    if missing := [name for name in ("provider", "model") if name not in columns]:
        return f"The first line must name columns. Missing: {' and '.join(missing)}."
    if unknown := [str(number) for number, name in enumerate(columns, 1) if name not in HEADER]:
        more = f" and {len(unknown) - _MOST_NAMED:,} more" if len(unknown) > _MOST_NAMED else ""
        return (
            f"Unknown column: number {', '.join(unknown[:_MOST_NAMED])}{more}. An export has the names of all columns."
        )
    return ""


async def apply(
    session: AsyncSession, by: Actor, rows: Sequence[Mapping[str, str]], now: datetime
) -> tuple[LineEffect, ...]:
    """Apply the lines. A line that cannot be applied is refused, the others are not. The caller commits or rolls back."""
    await entries.lock(session)
    # Read all entries at once, so that each line finds its own without a query.
    known = {row.id: row for row in await session.exec(select(PriceEntry))}
    return tuple([effect async for effect in _effects(session, by, rows, known, now)])


async def dry_run(
    session: AsyncSession, by: Actor, rows: Sequence[Mapping[str, str]], now: datetime
) -> tuple[LineEffect, ...]:
    """Return what `apply` would do, by applying the lines and rolling back."""
    tried = await session.begin_nested()
    try:
        return await apply(session, by, rows, now)
    finally:
        await tried.rollback()


async def _effects(
    session: AsyncSession,
    by: Actor,
    rows: Sequence[Mapping[str, str]],
    known: Mapping[int | None, PriceEntry],
    now: datetime,
) -> AsyncIterator[LineEffect]:
    for line, row in enumerate(rows, start=2):
        name = f"{row.get('provider', '')} {row.get('model', '')}".strip()
        try:
            entry = _named(row, known)
            before = Draft.of(entry).texts if entry else {}
            draft = read_draft(before | {key: value for key, value in row.items() if key != "id"})
            if entry is not None:
                draft = entries.spelled_as(entry, draft)
            if draft.texts == before:
                yield LineEffect(line, Effect.NOTHING, name, row)
                continue
            async with session.begin_nested():
                if entry is None:
                    await entries.add(session, by, draft, now)
                else:
                    await entries.change(session, by, entry, draft, now)
        except (InvalidPrice, NotFound) as error:
            problems = error.details or (Detail("id", error.message),)
            yield LineEffect(line, Effect.REFUSED, name, row, problems=problems)
        else:
            fields = tuple(
                (key, before.get(key, ""), after) for key, after in draft.texts.items() if before.get(key, "") != after
            )
            yield LineEffect(line, Effect.CORRECT if entry else Effect.ADD, name, row, fields)


def _named(row: Mapping[str, str], known: Mapping[int | None, PriceEntry]) -> PriceEntry | None:
    """Return the entry that the line names; None for a new one. Raises `NotFound`."""
    text = row.get("id", "").strip()
    if not text:
        return None
    number = parse_whole(text, MAX_ROW)
    entry = None if number is None else known.get(number)
    if entry is None or entry.withdrawn_at is not None:
        raise NotFound("There is no such entry; leave the id empty to add a price.")
    return entry
