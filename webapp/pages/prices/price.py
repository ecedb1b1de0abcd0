"""The page of a price: its values, its history, and the forms to change it."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar

from msgspec import Struct
from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.errors import InvalidPrice
from runtally.models.price import Match, PriceEntry
from runtally.pricing import entries, registry
from runtally.pricing.draft import Draft, amounts_of
from runtally.pricing.queries import UsedModel
from webapp import formats
from webapp.addresses import address_of
from webapp.form import Form, sent_form
from webapp.formats import change
from webapp.pages.prices.frame import (
    AMOUNT_NAMES,
    PricesFrame,
    amount,
    day,
    period_of,
    prices_frame,
    scope_of,
    source_of,
    state_of,
    time_in,
    variants_of,
)
from webapp.rendering import Page, render, see_other
from webapp.security import admin

PATH = "/admin/prices/<row:entry_id>"

blueprint = Blueprint("price", __name__)


class Step(Struct, frozen=True):
    """An amount: before and after; `before` is empty where it is the first."""

    name: str
    before: str
    after: str
    change: str


class Chapter(Struct, frozen=True):
    """An entry of the registry, described as a change of the one before it."""

    id: int
    url: str
    when: str
    scope: str
    steps: tuple[Step, ...]
    remark: str
    """What to say besides the amounts: that none changed, or when it ends if no later price is scheduled."""
    note: str
    who: str
    state: str
    """Empty for what is over, which most of a history is."""


def story_of(entries: Sequence[PriceEntry], now: datetime) -> tuple[Chapter, ...]:
    """Return a chapter for each entry, in the order of the entries."""
    return tuple(_chapter(entry, _before(entry, entries), entries, now) for entry in entries)


def _before(entry: PriceEntry, entries: Sequence[PriceEntry]) -> PriceEntry | None:
    """Return the entry that this one followed, for the same project and tier."""
    start = entry.effective_from
    if start is None or entry.withdrawn_at is not None:
        return None
    earlier = [
        one
        for one in entries
        if one.withdrawn_at is None
        and _is_alike(one, entry)
        and one.effective_to is not None
        and one.effective_to <= start
    ]
    return max(earlier, key=lambda one: one.effective_to or start, default=None)


def _chapter(entry: PriceEntry, before: PriceEntry | None, entries: Sequence[PriceEntry], now: datetime) -> Chapter:
    state, steps = state_of(entry, now), tuple(_steps(entry, before))
    return Chapter(
        id=entry.id or 0,
        url=url_for("price.price", entry_id=entry.id),
        when=f"From {day(entry.effective_from)}" if entry.effective_from else "Initial price",
        scope=" · ".join(scope_of(entry)),
        steps=steps,
        remark=" ".join(_remarks(entry, entries, has_steps=bool(steps))),
        note=entry.note or "",
        who=source_of(entry),
        state="" if state == "over" else state,
    )


def _steps(entry: PriceEntry, before: PriceEntry | None) -> Iterator[Step]:
    was, is_now = (dict(amounts_of(one)) if one else {} for one in (before, entry))
    for column, name in AMOUNT_NAMES.items():
        old, new = was.get(column), is_now.get(column)
        if before is None and new is not None:
            yield Step(name, "", amount(new), "")
        elif old != new:
            changed = change(new, old) if old is not None and new is not None else None
            yield Step(name, amount(old), amount(new), f"{changed.arrow}{changed.text}" if changed else "")
    rules_before, rules = (
        {variant.when: variant.text for variant in variants_of(each)} if each else {} for each in (before, entry)
    )
    for when in dict.fromkeys((*rules_before, *rules)):
        if rules_before.get(when) != rules.get(when):
            yield Step("Variant", rules_before.get(when, ""), rules.get(when, formats.NOTHING), "")


def _remarks(entry: PriceEntry, entries: Sequence[PriceEntry], *, has_steps: bool) -> Iterator[str]:
    if not has_steps:
        yield "No amount changed."
    end = entry.effective_to
    if entry.withdrawn_at is not None:
        yield f"Withdrawn on {formats.day(entry.withdrawn_at)}. It no longer applies."
    elif end is not None and not any(one.effective_from == end and _is_alike(one, entry) for one in entries):
        yield f"Ends on {day(end)}. No later price is scheduled."


def _is_alike(entry: PriceEntry, other: PriceEntry) -> bool:
    return (entry.project_id, entry.above_input_tokens) == (other.project_id, other.above_input_tokens)


class PricePage(Page, frozen=True):
    """An entry and its history."""

    fragment: ClassVar[str] = "prices/_price.html"

    frame: PricesFrame
    entry: PriceEntry
    heading: str
    state: str
    facts: tuple[tuple[str, str], ...]
    variants: tuple[str, ...]
    history: tuple[Chapter, ...]
    used: tuple[tuple[str, str], ...]
    """Models in use that have this price now, by name, with their runs."""
    days: int
    reprice_url: str
    """The URL to reprice its past runs."""
    end_form: Form

    @property
    def document_title(self) -> str:
        return f"Price of {self.heading}"


@blueprint.get(PATH)
@admin
async def price(entry_id: int) -> ResponseReturnValue:
    """The entry, and the entries for the same names."""
    async with services().control.database.session() as session:
        return await render(await _page(session, await entries.get(session, entry_id)))


@blueprint.post(f"{PATH}/end")
@admin
async def end(entry_id: int) -> ResponseReturnValue:
    """Let it hold until a day, by default until now."""
    form, now = await sent_form("end"), services().clock()
    async with services().control.database.session() as session:
        await entries.lock(session)
        entry = await entries.get(session, entry_id)
        if conflict := form.conflict_with(_end_form(entry)):
            return await render(await _page(session, entry, conflict), 422)
        try:
            await entries.end(session, actor(), entry, time_in(form.value("effective_to"), "effective_to") or now, now)
        except InvalidPrice as error:
            page = await _page(session, entry, form.refused(error, "effective_to"))
            return await render(page, 422)
    return see_other(url_for(".price", entry_id=entry_id), flash="End date saved.")


@blueprint.post(f"{PATH}/withdraw")
@admin
async def withdraw(entry_id: int) -> ResponseReturnValue:
    """Have it price nothing any more."""
    async with services().control.database.session() as session:
        entry = await entries.get(session, entry_id)
        try:
            await entries.withdraw(session, actor(), entry, services().clock())
        except InvalidPrice as error:
            return await render(await _page(session, entry, _end_form(entry).refused(error)), 422)
    said = "Price withdrawn. Runs that it priced keep their cost until you reprice them."
    return see_other(url_for(".price", entry_id=entry_id), flash=said)


def _end_form(entry: PriceEntry) -> Form:
    return Form.showing("end", {"effective_to": Draft.of(entry).texts["effective_to"]})


async def _page(session: AsyncSession, entry: PriceEntry, end_form: Form | None = None) -> PricePage:
    now = services().clock()
    used = await _used(entry, now)
    return PricePage(
        frame=prices_frame("prices.prices"),
        entry=entry,
        heading=entries.target_of(entry),
        state=state_of(entry, now),
        facts=_facts(entry),
        variants=tuple(variant.text for variant in variants_of(entry)),
        history=story_of(await entries.list_history(session, entry), now),
        used=tuple((f"{usage.provider} {usage.model}", formats.runs(usage.runs)) for usage in used),
        days=registry.USED_WITHIN.days,
        reprice_url=_reprice_url(entry, used),
        end_form=end_form or _end_form(entry),
    )


async def _used(entry: PriceEntry, now: datetime) -> tuple[UsedModel, ...]:
    # Read from the main database, for a reader who has just saved the price.
    await services().prices.refresh()
    async with services().cells.snapshots(None, is_current=True) as snapshots:
        return await registry.list_priced_by(snapshots, services().prices.book, entry, now)


def _reprice_url(entry: PriceEntry, used: Sequence[UsedModel]) -> str:
    """Return the form for the runs that the entry prices; of several models it leaves the model open."""
    names = {"provider": {usage.provider for usage in used}, "model": {usage.model for usage in used}}
    only = {part: next(iter(values)) for part, values in names.items() if len(values) == 1}
    texts = Draft.of(entry).texts
    since, until = texts["effective_from"] or None, texts["effective_to"] or None
    query = {"project": entry.project_id, "since": since, "until": until, **only}
    return address_of("repricing.repricings", query)


def _facts(entry: PriceEntry) -> tuple[tuple[str, str], ...]:
    amounts = [(AMOUNT_NAMES[name], amount(usd)) for name, usd in amounts_of(entry)]
    # What is as of most prices goes without saying.
    rest = {
        "In force": period_of(entry.effective_from, entry.effective_to),
        "Only for": f"project {entry.project_id}" if entry.project_id else "",
        "Input tokens": f"over {formats.count(entry.above_input_tokens)}" if entry.above_input_tokens else "",
        "Matches": {Match.EXACT: "", Match.PREFIX: "by prefix", Match.REGEX: "by pattern"}[Match(entry.match)],
        "Cost accuracy": "estimates" if entry.estimated else "",
        "Set by": f"{source_of(entry).removesuffix(', estimate')}, {formats.day(entry.created_at)}",
    }
    return (
        *amounts,
        *((n, t) for n, t in rest.items() if t),
    )
