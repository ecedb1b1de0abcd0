"""The differences between the installed price catalogue and the registry, and the form to take them over."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time
from decimal import Decimal
from importlib.metadata import version
from typing import ClassVar

from msgspec import Struct
from quart import Blueprint, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.audit import Change, record
from runtally.pricing import catalogue
from runtally.pricing.catalogue import Difference, Kind
from runtally.pricing.draft import CatalogueEntry
from webapp import formats
from webapp.form import sent_form
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
        frame=prices_frame("price_file.form"),
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


def _group(kind: Kind, found: list[Difference]) -> Group:
    heading, hint = HEADINGS[kind]
    return Group(kind, heading, hint, tuple(_items(found[:SHOWN])), len(found))


def _items(found: Iterable[Difference]) -> Iterable[Item]:
    for one in found:
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


def _fields(one: Difference) -> Iterator[tuple[str, str, str]]:
    """List the fields of an entry; of an entry on one side alone only those with a value."""
    for name, before, after in one.fields:
        if one.before is not None and one.after is not None:
            yield name, _shown(before), _shown(after)
        elif name not in {"model", "match"} and (value := before or after):
            yield name, "" if one.before is None else _shown(value), _shown(value) if one.after else ""


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
