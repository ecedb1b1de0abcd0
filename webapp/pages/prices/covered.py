"""Preview which models in use a price would match, below its form, while it is filled in."""

import asyncio
from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.current import services
from runtally.models.price import Match
from runtally.pricing import registry
from runtally.pricing.covered import Names, covered_by
from runtally.pricing.draft import MAX_ALIASES, MAX_PATTERN
from runtally.pricing.expressions import InvalidExpression
from webapp import formats
from webapp.pages.prices.effect import Effect, effect_of
from webapp.rendering import Page, render
from webapp.security import admin

SHOWN = 12

blueprint = Blueprint("price_covered", __name__)


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
        return CoveredModels(f"No model of {names.provider} was used in the last 90 days.")
    seen = "1 model" if found.seen == 1 else f"{found.seen:,} models"
    return CoveredModels(
        f"Matches {len(found.models):,} of the {seen} of {names.provider} used in the last 90 days"
        f"{':' if found.models else '.'}",
        tuple(
            (one.model, "1 run" if one.runs == 1 else f"{formats.count(one.runs)} runs") for one in found.models[:SHOWN]
        ),
        max(len(found.models) - SHOWN, 0),
        await effect_of(sent, found, now) if found.models else None,
    )


def _names(sent: Mapping[str, str]) -> Names:
    """Read the names as the form does, but without errors: half of it is not written yet."""
    text = {name: sent.get(name, "").replace("\0", "").strip() for name in ("provider", "model", "aliases", "pattern")}
    match = Match(sent["match"]) if sent.get("match") in set(Match) else Match.EXACT
    aliases = tuple(filter(None, (alias.strip() for alias in text["aliases"].split(","))))[:MAX_ALIASES]
    pattern = None if match is Match.EXACT else text["pattern"][:MAX_PATTERN] or None
    return Names(text["provider"], text["model"], aliases, match, pattern)
