"""Compute the cost of a run that is described in a form, and show the chosen price, the reasons and the lines."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import services
from runtally.db.database import Connection
from runtally.errors import Detail, InvalidPrice
from runtally.fields import parse_whole
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price, lines_of, price_for_run, total_usd, unpriced_units
from runtally.pricing.match import LookUp
from runtally.pricing.providers import provider_key
from runtally.pricing.queries import select_candidate
from runtally.pricing.rates import STANDARD_TIERS
from runtally.units import COUNT_COLUMNS, Usage, read_units
from webapp import formats
from webapp.form import Form
from webapp.pages.prices.frame import Names, PricesFrame, names_in_use, prices_frame, time_in
from webapp.pages.runs.costs import CostLine, PriceNote, cost_lines, price_note
from webapp.rendering import Page, render
from webapp.security import admin

USUAL = {"input_tokens": "10000", "output_tokens": "1000"}

blueprint = Blueprint("price_tester", __name__)


class Trial(Struct, frozen=True):
    """A run that was never sent."""

    provider: str
    model: str
    project_id: str | None
    at: datetime
    usage: Usage
    service_tier: str | None
    region: str | None


class Answer(Struct, frozen=True):
    """The cost of the run; without lines if no price is known."""

    total: str
    is_estimated: bool
    is_minimum: bool
    lines: tuple[CostLine, ...]
    price: PriceNote | None
    reasons: tuple[str, ...]


class TesterPage(Page, frozen=True):
    """A run to fill in, and its cost."""

    fragment: ClassVar[str] = "prices/_tester.html"
    tab_title: ClassVar[str] = "Price tester"

    frame: PricesFrame
    form: Form
    answer: Answer | None
    names: Names
    fields: tuple[tuple[str, str], ...] = tuple((name, name.replace("_", " ").capitalize()) for name in COUNT_COLUMNS)


@blueprint.get("/admin/prices/tester")
@admin
async def tester() -> ResponseReturnValue:
    """Show the price of a run and the reasons; the run is described in the URL."""
    sent = {**USUAL, **request.args}
    form = Form(values={name: (text,) for name, text in sent.items()})
    page = TesterPage(prices_frame("prices.prices"), form, None, await names_in_use())
    if "provider" not in request.args:
        return await render(page)
    try:
        trial = _trial(sent, services().clock())
    except InvalidPrice as error:
        return await render(replace(page, form=form.refused(error)), 422)
    # Read from the main database, for a reader who has just saved a price.
    await services().prices.refresh()
    async with services().control.database.connection() as connection:
        answer = await _answer(connection, services().prices.book, trial)
    return await render(replace(page, answer=answer))


async def _answer(connection: Connection, book: PriceBook, trial: Trial) -> Answer:
    asked = (trial.provider, trial.model, trial.at, trial.usage.input_tokens or 0, trial.project_id)
    price, step = book.price_for(*asked), book.look_up(*asked)
    if price is None or step is None:
        known = book.knows(trial.provider, trial.model, trial.project_id)
        why = "This model has a price, but none in force at that time." if known else "No price matches this model."
        return Answer("no price", is_estimated=False, is_minimum=False, lines=(), price=None, reasons=(why,))
    price = price_for_run(price, trial.service_tier, trial.region, trial.at, trial.usage.input_tokens or 0)
    candidate = await select_candidate(connection, price.id)
    return Answer(
        total=formats.money_exact(total_usd(trial.usage, price)),
        is_estimated=price.estimated,
        is_minimum=bool(unpriced_units(trial.usage, price)),
        lines=cost_lines(lines_of(trial.usage, price)),
        price=price_note(candidate, price) if candidate else None,
        reasons=tuple(_reasons(trial, price, step)),
    )


def _reasons(trial: Trial, price: Price, step: LookUp) -> Iterator[str]:
    if step.provider != provider_key(trial.provider):
        if step.is_borrowed:
            yield f"{trial.provider} has no price for it; {step.provider}'s is used as an estimate."
        else:
            yield f"{trial.provider} is another name of {step.provider}."
    if step.name != trial.model.strip().lower():
        yield f"{trial.model} is treated as {step.name}."
    how = f"Its pattern matches {step.name}." if step.pattern else f"{step.name} is one of its exact names."
    yield f"Price {price.id} applies. {how}"
    if price.above_input_tokens:
        tokens = formats.count(trial.usage.input_tokens or 0)
        yield f"{tokens} input tokens are more than {formats.count(price.above_input_tokens)}, where this tier begins."
    if price.percent_off is not None:
        yield "The project has a discount."
    for variant in price.applied:
        yield f"A variant holds: {variant.text}"
    if (
        trial.service_tier
        and trial.service_tier not in STANDARD_TIERS
        and not any(variant.tiers for variant in price.applied)
    ):
        yield f"It has no price for the service tier {trial.service_tier}, so that this is an estimate."


def _trial(sent: Mapping[str, str], now: datetime) -> Trial:
    """Read the run from the query. Raises `InvalidPrice` with every field that is wrong."""
    details = [Detail(name, "Enter a name.") for name in ("provider", "model") if not sent.get(name, "").strip()]
    counts: dict[str, Any] = {}
    for name in COUNT_COLUMNS:
        text = sent.get(name, "").replace(",", "").strip() or "0"
        number = parse_whole(text)
        if number is None:
            details.append(Detail(name, "Enter a whole number."))
        else:
            counts[name] = number
    at = None
    try:
        at = time_in(sent.get("at", ""), "at") or now
    except InvalidPrice as error:
        details += error.details
    units = _units(sent.get("units", ""), details)
    if details or at is None:
        raise InvalidPrice(details=tuple(details))
    usage = Usage(**counts, units=units)
    tier, region = (sent.get(name, "").strip() or None for name in ("serviceTier", "region"))
    project_id = sent.get("project", "").strip() or None
    return Trial(sent["provider"], sent["model"], project_id, at, usage, tier and tier.lower(), region)


def _units(text: str, details: list[Detail]) -> dict[str, int | float] | None:
    """Read counts of units such as `webSearch 2, cacheWrite1h 500`."""
    try:
        pairs = dict(part.split() for part in text.split(",") if part.strip())
        sent = {name: Decimal(number) for name, number in pairs.items()}
    except (ValueError, InvalidOperation):
        details.append(Detail("units", "Write names and numbers, such as webSearch 2, cacheWrite1h 500."))
        return None
    wrong: list[Detail] = []
    units = read_units(sent, wrong)
    if wrong:
        details.append(Detail("units", f"Units {wrong[0].message}."))
    return units
