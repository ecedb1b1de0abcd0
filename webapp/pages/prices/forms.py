"""The forms that change the registry: a new price, a correction, and a successor.

While one is filled in, it previews which models in use the price would match, and what their cost would be.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.errors import InvalidPrice, OverlappingPrice
from runtally.models.price import Match, PriceEntry
from runtally.pricing import entries, match, registry
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price, total_usd
from runtally.pricing.draft import FIELDS, MAX_ALIASES, MAX_PATTERN, Draft, read_draft
from runtally.pricing.expressions import InvalidExpression
from runtally.pricing.queries import MAX_MODELS
from runtally.pricing.registry import Covered, covered_by
from runtally.runs.what_if import ModelUsage, Target, cost_at, read_usage, suppose
from runtally.units import TOKEN_KINDS, Unit, Usage
from webapp import formats
from webapp.form import Form, sent_form
from webapp.pages.prices.frame import Names, PricesFrame, names_in_use, prices_frame
from webapp.rendering import Page, render, see_other
from webapp.report import Column, Head, Table, table_of
from webapp.security import admin
from webapp.zone import last_30_days

SHOWN = 12

blueprint = Blueprint("price_forms", __name__)

SHOWN_MODELS = 10
EXAMPLE = Usage(input_tokens=10_000, output_tokens=1_000)


class Effect(Struct, frozen=True):
    """The effect on all models together, and on the most expensive ones."""

    now: str
    then: str
    change: str
    example: str
    table: Table
    more: int


async def effect_of(sent: Mapping[str, str], covered: Covered, now: datetime) -> Effect | None:
    """Return the effect of a price that is filled in; None while it is not, or cannot be read."""
    try:
        draft = read_draft(sent)
    except InvalidPrice:
        return None
    # What was just saved is the price now.
    await services().prices.refresh()
    async with services().cells.snapshots(draft.project_id) as snapshots:
        used = await read_usage(snapshots, draft.project_id, last_30_days(now).since, now)
    names = {(model.provider, model.model) for model in covered.models}
    return _effect(draft, [usage for usage in used if (usage.provider, usage.model) in names], now)


def _effect(draft: Draft, used: Sequence[ModelUsage], now: datetime) -> Effect:
    price, book = price_of(draft), services().prices.book
    pairs = [(usage, _now(book, usage, draft.project_id, now), cost_at(usage, price)) for usage in used]
    pairs.sort(key=lambda pair: -max(pair[1] or Decimal(0), pair[2]))
    known = [before for _, before, _ in pairs if before is not None]
    was, then = sum(known, Decimal(0)), sum((after for _, _, after in pairs), Decimal(0))
    change = formats.change(then, was) if len(known) == len(pairs) else None
    money_now, money_then = formats.column_money(known), formats.column_money(after for _, _, after in pairs)
    columns: tuple[Column[tuple[ModelUsage, Decimal | None, Decimal]], ...] = (
        Column("Runs", lambda row: formats.count(row[0].runs), "number"),
        Column("Cost now", lambda row: "no price" if row[1] is None else money_now(row[1]), "number"),
        Column("At new price", lambda row: money_then(row[2]), "number"),
    )
    return Effect(
        now=formats.money(was) if known else "no price",
        then=formats.money(then),
        change=f"{change.arrow}{change.text}" if change and change.arrow else "",
        example=formats.money_exact(total_usd(EXAMPLE, price)),
        table=table_of("Model", lambda row: Head(name=row[0].model), columns, pairs[:SHOWN_MODELS]),
        more=max(len(pairs) - SHOWN_MODELS, 0),
    )


def _now(book: PriceBook, used: ModelUsage, project_id: str | None, now: datetime) -> Decimal | None:
    [supposed] = suppose([used], book, Target(now), project_id)
    return supposed.would_cost_usd


def price_of(draft: Draft) -> Price:
    """Return the price with the amounts of a draft, whatever the length of a context."""
    return match.price_of(
        partial(getattr, draft),
        id=0,
        provider=draft.provider,
        model=draft.model,
        above_input_tokens=0,
        estimated=draft.estimated,
    )


class CoveredModels(Struct, frozen=True):
    """The number of models in a sentence, and some of them by name with their runs."""

    sentence: str
    models: tuple[tuple[str, str], ...] = ()
    more: int = 0
    effect: Effect | None = None


class CoveredPage(Page, frozen=True):
    """The part of the form that says what it fits."""

    template: ClassVar[str] = "prices/_covered.html"
    fragment: ClassVar[str] = "prices/_covered.html"

    covered: CoveredModels


@blueprint.get("/admin/prices/covered")
@admin
async def covered() -> ResponseReturnValue:
    """Show the models in use that the names and the pattern in the query match."""
    return await render(CoveredPage(await covered_models(request.args)))


async def covered_models(sent: Mapping[str, str]) -> CoveredModels:
    names = _names(sent)
    if not names.provider or not (names.model or names.pattern):
        return CoveredModels("Enter a provider and a model to see which models in use it matches.")
    now = services().clock()
    async with services().cells.snapshots(None, is_current=True) as snapshots:
        used = await registry.list_used_models(snapshots, now)
    try:
        # Thousands of models against a new pattern; requests must not wait for that.
        found = await asyncio.to_thread(covered_by, names, used)
    except InvalidExpression as error:
        return CoveredModels(str(error))
    if not found.seen:
        cut = f" is among the {MAX_MODELS:,} most used ones of" if len(used) == MAX_MODELS else " was used in"
        return CoveredModels(f"No model of {names.provider}{cut} the last 90 days.")
    seen = "1 model" if found.seen == 1 else f"{found.seen:,} models"
    return CoveredModels(
        f"Matches {len(found.models):,} of the {seen} of {names.provider} used in the last 90 days"
        f"{':' if found.models else '.'}",
        tuple(
            (model.model, "1 run" if model.runs == 1 else f"{formats.count(model.runs)} runs")
            for model in found.models[:SHOWN]
        ),
        max(len(found.models) - SHOWN, 0),
        await effect_of(sent, found, now) if found.models else None,
    )


def _names(sent: Mapping[str, str]) -> registry.Names:
    """Read the names as the form does, but without errors: half of it is not written yet."""
    text = {name: sent.get(name, "").replace("\0", "").strip() for name in ("provider", "model", "aliases", "pattern")}
    match = Match(sent["match"]) if sent.get("match") in set(Match) else Match.EXACT
    aliases = tuple(filter(None, (alias.strip() for alias in text["aliases"].split(","))))[:MAX_ALIASES]
    pattern = None if match is Match.EXACT else text["pattern"][:MAX_PATTERN] or None
    return registry.Names(text["provider"], text["model"], aliases, match, pattern)


PATH = "/admin/prices"
MATCHES = ((Match.EXACT, "Exact names"), (Match.PREFIX, "Prefix"), (Match.REGEX, "Regular expression"))
ESTIMATED = (("false", "Exact"), ("true", "Estimates"))


class Act(StrEnum):
    """The action of a form; the value is its heading."""

    ADD = "New price"
    CORRECT = "Correct a price"
    FOLLOW = "Schedule a change"


ACTS = {"correct": Act.CORRECT, "follow": Act.FOLLOW}
WHAT_HAPPENS = {
    Act.ADD: "Unpriced runs that match get this price right away.",
    Act.CORRECT: "A new amount, name or start replaces this price. Runs that have a cost keep it until you reprice them.",
    Act.FOLLOW: "The current price ends when this one starts.",
}


class PriceFormPage(Page, frozen=True):
    """A price to fill in."""

    fragment: ClassVar[str] = "prices/_price_form.html"

    frame: PricesFrame
    act: Act
    url: str
    back_url: str
    form: Form
    projects: tuple[tuple[str, str], ...]
    covered: CoveredModels
    names: Names
    in_the_way_url: str | None = None
    """The entry that the form cannot be saved for."""
    matches: tuple[tuple[str, str], ...] = MATCHES
    estimated: tuple[tuple[str, str], ...] = ESTIMATED
    kinds: tuple[Unit, ...] = TOKEN_KINDS

    @property
    def document_title(self) -> str:
        return self.act.value

    @property
    def what_happens(self) -> str:
        return WHAT_HAPPENS[self.act]

    @property
    def shows_more(self) -> bool:
        """Whether a field of the collapsed section is filled in or has an error."""
        names = (
            "unit_rates",
            "variants",
            "aliases",
            "pattern",
            "project_id",
            "above_input_tokens",
            "per_thousand_requests",
        )
        return any(self.form.value(name) not in {"", "0"} or name in self.form.errors for name in names)


@blueprint.get(f"{PATH}/new")
@admin
async def new() -> ResponseReturnValue:
    """A form for a new price, filled in with what the address says."""
    filled = Form(values={name: (request.args[name],) for name in FIELDS if name in request.args})
    return await render(await _page(Act.ADD, None, filled))


@blueprint.post(f"{PATH}/new")
@admin
async def add() -> ResponseReturnValue:
    """Add a price."""
    form = await sent_form()
    async with services().control.database.session() as session:
        try:
            entry = await entries.add(session, actor(), _draft(form), services().clock())
        except InvalidPrice as error:
            return await render(_refused(await _page(Act.ADD, None, form), error), 422)
    return _saved(entry)


@blueprint.get(f"{PATH}/<row:entry_id>/<any(correct, follow):how>")
@admin
async def change(entry_id: int, how: str) -> ResponseReturnValue:
    """Show the form with a price's values, to correct it or to enter its successor."""
    async with services().control.database.session() as session:
        entry = await entries.get(session, entry_id)
        form = _shown(entry)
        if how == "follow":
            tomorrow = services().clock() + timedelta(days=1)
            times = {"effective_from": (f"{tomorrow:%Y-%m-%d}",), "effective_to": ("",)}
            form = replace(form, values={**form.values, **times})
        return await render(await _page(ACTS[how], entry, form))


@blueprint.post(f"{PATH}/<row:entry_id>/<any(correct, follow):how>")
@admin
async def save(entry_id: int, how: str) -> ResponseReturnValue:
    """Correct the price, or let another follow."""
    form, act = await sent_form(), entries.change if how == "correct" else entries.follow
    async with services().control.database.session() as session:
        await entries.lock(session)
        entry = await entries.get(session, entry_id)
        if conflict := form.conflict_with(_shown(entry)):
            return await render(await _page(ACTS[how], entry, conflict), 422)
        try:
            async with session.begin_nested():
                saved = await act(session, actor(), entry, _draft(form), services().clock())
        except InvalidPrice as error:
            return await render(_refused(await _page(ACTS[how], entry, form), error), 422)
    return _saved(saved)


def _saved(entry: PriceEntry) -> Response:
    said = f"Price saved for {entries.target_of(entry)}."
    return see_other(url_for("price.price", entry_id=entry.id), flash=said)


def _draft(form: Form) -> Draft:
    """Read the draft. Raises `InvalidPrice`."""
    return read_draft({name: form.value(name) for name in FIELDS})


def _shown(entry: PriceEntry) -> Form:
    return Form.showing("", Draft.of(entry).texts)


def _refused(page: PriceFormPage, error: InvalidPrice) -> PriceFormPage:
    form = page.form.refused(error)
    if isinstance(error, OverlappingPrice):
        return replace(page, form=form, in_the_way_url=url_for("price.price", entry_id=error.entry_id))
    return replace(page, form=form)


async def _page(act: Act, entry: PriceEntry | None, form: Form) -> PriceFormPage:
    known = [project.id for project in await services().cells.list_projects()]
    chosen = form.value("project_id")
    ids = known if not chosen or chosen in known else [*known, chosen]
    if entry is None:
        url, back_url = url_for(".add"), url_for("prices.prices")
    else:
        how = next(name for name, one in ACTS.items() if one is act)
        url = url_for(".save", entry_id=entry.id, how=how)
        back_url = url_for("price.price", entry_id=entry.id)
    return PriceFormPage(
        frame=prices_frame("prices.prices"),
        act=act,
        url=url,
        back_url=back_url,
        form=form,
        projects=(("", "All projects"), *((id_, id_) for id_ in ids)),
        covered=await covered_models({name: form.value(name) for name in FIELDS}),
        names=await names_in_use(),
    )
