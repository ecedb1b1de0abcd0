"""The forms that change the registry: a new price, a correction, and a successor."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar

from msgspec.structs import replace
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.errors import InvalidPrice, OverlappingPrice
from runtally.models.price import Match, PriceEntry
from runtally.pricing import entries
from runtally.pricing.draft import FIELDS, Draft, read_draft
from runtally.units import TOKEN_KINDS, Unit
from webapp.form import Form, sent_form
from webapp.pages.prices.covered import CoveredModels, covered_models
from webapp.pages.prices.frame import Names, PricesFrame, names_in_use, prices_frame
from webapp.rendering import Page, render, see_other
from webapp.security import admin

PATH = "/admin/prices"
MATCHES = ((Match.EXACT, "Exact names"), (Match.PREFIX, "Prefix"), (Match.REGEX, "Regular expression"))
ESTIMATED = (("false", "Exact"), ("true", "Estimates"))

blueprint = Blueprint("price_forms", __name__)


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
    return await render(await _page(Act.ADD, None, _filled(request.args)))


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


def _filled(texts: Mapping[str, str]) -> Form:
    return Form(values={name: (texts[name],) for name in FIELDS if name in texts})


def _refused(page: PriceFormPage, error: InvalidPrice) -> PriceFormPage:
    form = page.form.refused(error)
    if isinstance(error, OverlappingPrice):
        return replace(page, form=form, in_the_way_url=url_for("price.price", entry_id=error.entry_id))
    return replace(page, form=form)


async def _page(act: Act, entry: PriceEntry | None, form: Form) -> PriceFormPage:
    known = [one.id for one in await services().cells.list_projects()]
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
        projects=(("", "All projects"), *((one, one) for one in ids)),
        covered=await covered_models({name: form.value(name) for name in FIELDS}),
        names=await names_in_use(),
    )
