"""The differences between the installed price catalogue and the registry, and the form to take them over.

The registry as a CSV file: download it, and upload one after a preview of its changes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, time
from decimal import Decimal
from importlib.metadata import version
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.audit import Change, record
from runtally.errors import InvalidPrice
from runtally.pricing import catalogue, price_file
from runtally.pricing.catalogue import Difference, Kind
from runtally.pricing.draft import CatalogueEntry
from runtally.pricing.price_file import Effect, LineEffect
from webapp import formats
from webapp.form import Form, sent_form
from webapp.pages.prices.frame import PricesFrame, day, period_of, prices_frame
from webapp.rendering import Page, render, see_other
from webapp.security import admin

PATH = "/admin/prices/catalogue"
SHOWN = 200
HEADINGS = {
    Kind.NEW: ("New", "Models and periods that have no price yet."),
    Kind.CHANGED: (
        "Changed",
        "A new amount ends the current price now and starts a new one. Other changes apply to the current price.",
    ),
    Kind.VANISHED: ("Vanished", "No longer in the catalogue. They keep pricing runs until you end them."),
}

blueprint = Blueprint("price_catalogue", __name__)


class Item(Struct, frozen=True):
    """A difference; `fields` are name, before and after."""

    key: str
    name: str
    fields: tuple[tuple[str, str, str], ...]
    checked: str
    """The day on which the catalogue's maintainers checked the price, if known."""
    kept_for_url: str | None
    """The admin's entry that it is left out for."""


class Group(Struct, frozen=True):
    """The differences of one kind."""

    kind: Kind
    heading: str
    hint: str
    items: tuple[Item, ...]
    number: int


class CataloguePage(Page, frozen=True):
    """The comparison of the registry with the catalogue."""

    fragment: ClassVar[str] = "prices/_catalogue.html"
    tab_title: ClassVar[str] = "Price catalogue"

    frame: PricesFrame
    package: str
    groups: tuple[Group, ...]
    reading_url: str | None
    """The URL of the differences, while they are not computed yet."""


@blueprint.get(PATH)
@admin
async def differences() -> ResponseReturnValue:
    """New, changed and vanished prices; to read the catalogue takes seconds, so the page comes first and asks for them."""
    comparison = services().comparison
    async with services().control.database.connection() as connection:
        found = await (comparison.read if "read" in request.args else comparison.known)(connection)
    groups = tuple(_group(kind, [one for one in found or () if one.kind is kind]) for kind in Kind)
    page = CataloguePage(
        frame=prices_frame("price_catalogue.form"),
        package=f"{catalogue.PACKAGE} {version(catalogue.PACKAGE)}",
        groups=tuple(group for group in groups if group.number),
        reading_url=url_for(".differences", read=1) if found is None else None,
    )
    return await render(page)


@blueprint.post(PATH)
@admin
async def take() -> ResponseReturnValue:
    """Take over what is chosen, or with `all` everything that is new or changed."""
    form, now = await sent_form(), services().clock()
    async with services().control.database.connection() as connection:
        keys = set(form.chosen("key"))
        if form.value("all"):
            keys = {one.entry.catalogue_key for one in await services().comparison.read(connection) if one.after}
        report = await catalogue.take(connection, keys, now)
    done = {"added": report.added, "changed": report.changed, "ended": report.vanished, "left_out": report.kept}
    async with services().control.database.session() as session:
        record(session, actor(), Change("catalogue.taken", version(catalogue.PACKAGE), after=done))
    said = f"{report.added:,} added, {report.changed:,} changed, {report.vanished:,} ended, {report.kept:,} left out."
    return see_other(url_for(".differences"), flash=said)


def _group(kind: Kind, differences: list[Difference]) -> Group:
    heading, hint = HEADINGS[kind]
    return Group(kind, heading, hint, tuple(_items(differences[:SHOWN])), len(differences))


def _items(differences: Iterable[Difference]) -> Iterable[Item]:
    for one in differences:
        yield Item(
            key=one.entry.catalogue_key,
            name=" · ".join((f"{one.entry.provider} {one.entry.model}", *_scope(one.entry))),
            fields=tuple(_fields(one)),
            checked=f"checked on {day(datetime.combine(one.checked_on, time(), UTC))}" if one.checked_on else "",
            kept_for_url=url_for("price.price", entry_id=one.kept_for) if one.kept_for else None,
        )


def _scope(entry: CatalogueEntry) -> Iterator[str]:
    if entry.above_input_tokens:
        yield f"over {formats.count(entry.above_input_tokens)} input tokens"
    if entry.effective_from or entry.effective_to:
        yield period_of(entry.effective_from, entry.effective_to)


def _fields(difference: Difference) -> Iterator[tuple[str, str, str]]:
    """List the fields of an entry; of an entry on one side alone only those with a value."""
    for name, before, after in difference.fields:
        if difference.before is not None and difference.after is not None:
            yield name, _shown(before), _shown(after)
        elif name not in {"model", "match"} and (value := before or after):
            yield name, "" if difference.before is None else _shown(value), _shown(value) if difference.after else ""


def _shown(value: object) -> str:
    match value:
        case None | ():
            return formats.NOTHING
        case Decimal():
            return formats.money_exact(value)
        case datetime():
            return day(value)
        case tuple():
            return ", ".join(map(str, value))
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)


FILE_PATH = "/admin/prices/file"
SHOWN_LINES = 500
# Nothing is done yet when they are read.
WORDS = {
    Effect.ADD: "to add",
    Effect.CORRECT: "to correct",
    Effect.NOTHING: "unchanged",
    Effect.REFUSED: "refused",
}

PREVIEW = Form("preview")
_CHANGED = "Someone else changed one of these prices. Check the new preview, then apply it."


class FilePage(Page, frozen=True):
    """The forms for a file of prices, and a preview of the one that was sent."""

    fragment: ClassVar[str] = "prices/_file.html"
    tab_title: ClassVar[str] = "Import and export prices"

    frame: PricesFrame
    form: Form
    effects: tuple[LineEffect, ...] = ()
    number: int = 0
    counts: tuple[tuple[str, int], ...] = ()
    preview: Form = PREVIEW
    changes: str = ""
    """The lines that would change something, to be sent again."""
    columns: tuple[str, ...] = price_file.HEADER

    @property
    def words(self) -> Mapping[Effect, str]:
        return WORDS


@blueprint.get(FILE_PATH)
@admin
async def form() -> ResponseReturnValue:
    """Download or upload."""
    return await render(FilePage(prices_frame("price_catalogue.form"), Form()))


@blueprint.get(f"{FILE_PATH}/prices.csv")
@admin
async def download() -> ResponseReturnValue:
    """Download all current and future prices."""
    async with services().control.database.session() as session:
        text = await price_file.write(session)
    headers = {"Content-Disposition": 'attachment; filename="prices.csv"', "Cache-Control": "private, no-store"}
    return Response(text, mimetype="text/csv", headers=headers)


@blueprint.post(FILE_PATH)
@admin
async def upload() -> ResponseReturnValue:
    """Show what each line would do; with `apply`, do it, all of it or nothing."""
    sent, applies = await sent_form(), (await request.form).get("apply") == "1"
    page = FilePage(prices_frame("price_catalogue.form"), Form())
    async with services().control.database.session() as session:
        try:
            rows = price_file.read(await _text(sent))
        except InvalidPrice as error:
            return await render(replace(page, form=page.form.refused(error)), 422)
        effects = await price_file.dry_run(session, actor(), rows, services().clock())
        counts = Counter(effect.effect for effect in effects)
        shown = _previewed(page, effects, counts)
        if not applies or counts[Effect.REFUSED]:
            return await render(shown, 422 if counts[Effect.REFUSED] else 200)
        if sent.is_behind(shown.preview):
            return await render(replace(shown, preview=shown.preview.refused(InvalidPrice(_CHANGED))), 422)
        await price_file.apply(session, actor(), rows, services().clock())
    said = f"{counts[Effect.ADD]:,} prices added, {counts[Effect.CORRECT]:,} corrected."
    return see_other(url_for("prices.prices"), flash=said)


async def _text(sent: Form) -> str:
    file = (await request.files).get("file")
    if file is None or not file.filename:
        return sent.value("csv")
    return str(file.read().decode("utf-8", errors="replace"))


def _previewed(page: FilePage, effects: tuple[LineEffect, ...], counts: Counter[Effect]) -> FilePage:
    telling = [effect for effect in effects if effect.effect is not Effect.NOTHING]
    return replace(
        page,
        effects=tuple(sorted(telling, key=lambda one: one.effect is not Effect.REFUSED)[:SHOWN_LINES]),
        number=len(telling),
        counts=tuple((WORDS[effect], counts[effect]) for effect in Effect),
        preview=PREVIEW.at_version([(one.effect, one.name, one.fields) for one in telling]),
        changes="" if counts[Effect.REFUSED] else price_file.text_of(one.values for one in telling),
    )
