"""Prices as a file, and the catalogue in parts: what is shown beforehand is what is done."""

import csv
import io
from dataclasses import replace
from datetime import date
from unittest.mock import AsyncMock

import msgspec
import pytest

from runtally.audit import OPERATOR
from runtally.db.database import Connection, Database
from runtally.errors import InvalidPrice
from runtally.pricing import catalogue, price_file
from runtally.pricing.catalogue import Kind, compare, store, take
from runtally.pricing.price_file import HEADER, Effect
from tests.store.pricing.test_catalogue import CATALOGUE, DAY, DEARER, ENTRY, NOW, PATTERN, TIER, price_id, stored_rows
from tests.store.pricing.test_entries import added, draft_with


async def dry(database: Database, text: str) -> dict[int, Effect]:
    async with database.session() as session:
        effects = await price_file.dry_run(session, OPERATOR, price_file.read(text), NOW)
    return {one.line: one.effect for one in effects}


async def test_uploading_a_downloaded_file_changes_nothing(own: Database) -> None:
    await added(
        own, draft_with(aliases=("big", "huge"), effective_from=NOW, note='Say "hi", twice\nor more.', estimated=True)
    )
    await added(
        own, draft_with(model="small", unit_rates="webSearch 10", variants="tier batch: x 0.5\nregion us: x 1.1")
    )
    await added(own, draft_with(model="@cf/small", aliases=("=1+1", "-2"), note="'=HYPERLINK(1)"))
    # As the catalogue spells some providers, and no form.
    async with own.connection() as connection:
        await connection.execute("UPDATE price_entries SET provider = 'glo_bex' WHERE model = 'small'")
    async with own.session() as session:
        text = await price_file.write(session)

    assert "glo_bex" in text
    assert await dry(own, text) == {2: Effect.NOTHING, 3: Effect.NOTHING, 4: Effect.NOTHING}
    # Each cell as a spreadsheet gets it.
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert {"'@cf/small", "'=1+1, -2", "''=HYPERLINK(1)"} < set(cells)
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


async def test_a_dry_run_lists_the_effects_and_changes_nothing(own: Database, own_connection: Connection) -> None:
    number = await added(own)
    lines = [
        "id,provider,model,input_per_million,effective_from",
        f"{number},globex,large,4,",
        ",globex,small,1,",
        ",globex,small,2,",
        ",globex,tiny,much,",
        "999,globex,large,1,",
    ]
    before = await stored_rows(own_connection)

    effects = await dry(own, "\n".join(lines))

    assert effects == {
        2: Effect.CORRECT, 3: Effect.ADD, 4: Effect.REFUSED, 5: Effect.REFUSED, 6: Effect.REFUSED,
    }  # fmt: skip
    assert await stored_rows(own_connection) == before


async def test_a_file_is_applied(own: Database, own_connection: Connection) -> None:
    number = await added(own)
    text = f"id,provider,model,input_per_million\n{number},globex,large,4\n,globex,small,1\n"

    async with own.session() as session:
        effects = await price_file.apply(session, OPERATOR, price_file.read(text), NOW)

    [corrected, _] = effects
    assert corrected.fields == (("input_per_million", "3", "4"),)
    rows = [row for row in await stored_rows(own_connection) if row["withdrawn_at"] is None]
    assert [(row["model"], int(row["input_per_million"]), row["output_per_million"]) for row in rows] == [
        ("large", 4, 15),
        ("small", 1, None),
    ]


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", ",".join(HEADER), "provider,model,secret\na,b,c\n"])
def test_an_invalid_file_is_refused(text: str) -> None:
    with pytest.raises(InvalidPrice):
        price_file.read(text)


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue with one price changed, one new and one dropped."""
    new = replace(ENTRY, model="new", aliases=(), catalogue_key="globex/new")
    lines = [msgspec.json.encode(entry) for entry in (DEARER, PATTERN, new)]
    lines[0] = lines[0][:-1] + b',"checked_on":"2026-10-09"}'
    monkeypatch.setattr(catalogue, "exported_lines", AsyncMock(return_value=lines))


async def test_the_catalogue_is_compared_before_it_is_taken(own_connection: Connection, newer: None) -> None:
    await store(own_connection, CATALOGUE, NOW)

    changed, new, vanished = await compare(own_connection)

    assert (changed.checked_on, new.checked_on) == (date(2026, 10, 9), None)
    assert (changed.kind, new.kind, vanished.kind) == (Kind.CHANGED, Kind.NEW, Kind.VANISHED)
    assert [(name, str(before), str(after)) for name, before, after in changed.fields] == [
        ("input_per_million", "3.000000", "4")
    ]
    assert (new.entry.model, vanished.entry.above_input_tokens) == ("new", TIER.above_input_tokens)


async def test_only_chosen_entries_are_taken_over(own_connection: Connection, newer: None) -> None:
    await store(own_connection, CATALOGUE, NOW)
    before = await price_id(own_connection, NOW + DAY)

    report = await take(own_connection, {"globex/new", TIER.catalogue_key}, NOW + DAY)

    assert (report.added, report.changed, report.vanished) == (1, 0, 1)
    assert await price_id(own_connection, NOW + DAY) == before
    assert await price_id(own_connection, NOW + 2 * DAY, 5000) == before
    assert [one.kind for one in await compare(own_connection)] == [Kind.CHANGED]
    await take(own_connection, {ENTRY.catalogue_key}, NOW + DAY)
    assert await compare(own_connection) == ()


async def test_an_admins_price_keeps_a_new_one_of_the_catalogue_out_and_is_named(
    own: Database, own_connection: Connection, newer: None
) -> None:
    number = await added(own, draft_with(model="NEW"))

    [new] = [one for one in await compare(own_connection) if one.entry.model == "new"]

    assert new.kept_for == number
    assert (await take(own_connection, {"globex/new"}, NOW)).kept == 1
