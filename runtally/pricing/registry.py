"""Look through the registry: its entries, which of them are used, and which used models have a price."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import nsmallest

from sqlalchemy import BigInteger, ColumnElement, cast
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import col, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.models.price import Match, PriceEntry, ProjectDiscount
from runtally.pricing import queries
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price, Rates
from runtally.pricing.expressions import demand_expression
from runtally.pricing.match import PriceCandidate, PriceIndex
from runtally.pricing.providers import canonical
from runtally.pricing.queries import UsedModel
from runtally.usage.snapshots import Snapshots

# A model that was not used for so long needs no price.
USED_WITHIN = timedelta(days=90)
MAX_WORDS = 8
MAX_USED = 50
MAX_FOUND = 100
# More than any context holds.
MANY_TOKENS = 10**12


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A page of the entries that a search finds, how many there are in all, and which page it is."""

    entries: Sequence[PriceEntry]
    number: int
    page: int


async def search(  # noqa: PLR0913  # What a list is asked for.
    session: AsyncSession, text: str, now: datetime, *, past: bool, first: Iterable[int] = (), page: int = 1
) -> SearchResult:
    """Find entries with each of the words in a name: the ids of `first`, then projects' own, then by name; page by page.

    With `past`, entries that are over are included. After the last page comes the last page.
    """
    conditions = [_has(word) for word in text.lower().replace("\0", "").split()[:MAX_WORDS]]
    if not past:
        conditions.append(col(PriceEntry.withdrawn_at).is_(None))
        conditions.append(or_(col(PriceEntry.effective_to).is_(None), col(PriceEntry.effective_to) > now))
    number = (await session.exec(select(func.count()).select_from(PriceEntry).where(*conditions))).one()
    page = min(page, max(1, -(-number // MAX_FOUND)))
    query = (
        select(PriceEntry)
        .where(*conditions)
        .order_by(
            func.array_position(cast(list(first), ARRAY(BigInteger)), PriceEntry.id).asc().nulls_last(),
            col(PriceEntry.project_id).is_(None),
            col(PriceEntry.provider),
            col(PriceEntry.model),
            col(PriceEntry.above_input_tokens),
            col(PriceEntry.effective_from).desc().nulls_last(),
            col(PriceEntry.id),
        )
        .offset((page - 1) * MAX_FOUND)
        .limit(MAX_FOUND)
    )
    return SearchResult((await session.exec(query)).all(), number, page)


async def list_named(
    session: AsyncSession, providers: Sequence[str] | None, model: str | None, limit: int
) -> Sequence[PriceEntry]:
    """List the entries of these providers with that text in a name, past ones too; None: of all, with any."""
    start = col(PriceEntry.effective_from).asc().nulls_first()
    names = (col(PriceEntry.provider), col(PriceEntry.model), col(PriceEntry.above_input_tokens))
    query = select(PriceEntry).order_by(*names, start, col(PriceEntry.id)).limit(limit)
    if providers is not None:
        query = query.where(col(PriceEntry.provider).in_(providers))
    if model:
        of_model, aliases = func.lower(PriceEntry.model), func.lower(func.array_to_string(PriceEntry.aliases, "\n"))
        query = query.where(func.greatest(*(func.strpos(name, model.lower()) for name in (of_model, aliases))) > 0)
    return (await session.exec(query)).all()


async def list_discounts(session: AsyncSession) -> Sequence[ProjectDiscount]:
    """List all discounts by project, the latest start first."""
    start = col(ProjectDiscount.effective_from).desc().nulls_last()
    return (await session.exec(select(ProjectDiscount).order_by(col(ProjectDiscount.project_id), start))).all()


async def list_in_use(
    snapshots: Snapshots, models: Iterable[UsedModel], book: PriceBook, now: datetime
) -> Mapping[int, int | None]:
    """List the entries that price these models in use, with the number of their runs, the most first.

    Each is followed by the entry for its longest contexts, if there is one, with None: how many runs are so long is not
    counted.
    """
    since = now - USED_WITHIN
    own = await snapshots.of_each(lambda connection: queries.select_used_models_of(connection, since, book.with_prices))
    # Use by projects with prices of their own counts as theirs alone.
    uses: list[tuple[str | None, UsedModel, int]] = [(None, model, model.runs) for model in models]
    for owner, one in (used for of_one in own for used in of_one):
        uses += [(None, one, -one.runs), (owner, one, one.runs)]
    runs: Counter[int] = Counter()
    longest: dict[int, set[int]] = defaultdict(set)
    for project_id, use, number in uses:
        price, long = (book.price_for(use.provider, use.model, now, tokens, project_id) for tokens in (0, MANY_TOKENS))
        if price is not None:
            runs[price.id] += number
            if long is not None and long.id != price.id:
                longest[price.id].add(long.id)
    found: dict[int, int | None] = {}
    for entry_id, number in runs.most_common():
        if number > 0:
            found |= {entry_id: number} | dict.fromkeys(sorted(longest[entry_id]))
    return found


async def list_used_models(snapshots: Snapshots, now: datetime) -> list[UsedModel]:
    """List the models that were used lately, in all projects together, the most used first, up to `MAX_MODELS`."""
    first, *others = await snapshots.of_each(
        lambda connection: queries.select_used_models(connection, now - USED_WITHIN)
    )
    if not others:
        return [*first]
    found: dict[tuple[str, str], UsedModel] = {}
    for one in (used for of_one in (first, *others) for used in of_one):
        key = one.provider, one.model
        found[key] = found[key] + one if key in found else one
    return nsmallest(queries.MAX_MODELS, found.values(), key=lambda model: (-model.runs, model.provider, model.model))


def unpriced_of(
    models: Iterable[UsedModel], book: PriceBook, direct_providers: Iterable[str], now: datetime
) -> tuple[UsedModel, ...]:
    """Return those of these models that have no price now.

    A direct provider needs no price, as long as it reports costs.
    """
    direct = {name.casefold() for name in direct_providers}
    return tuple(
        model
        for model in models
        if book.price_for(model.provider, model.model, now, 0) is None
        and (model.unpriced or model.provider.casefold() not in direct)
    )


async def list_priced_by(
    snapshots: Snapshots, book: PriceBook, entry: PriceEntry, now: datetime
) -> tuple[UsedModel, ...]:
    """List the models in use whose runs the entry prices now, the most used first.

    The runs must be long enough for the entry's tier.
    """
    found = []
    for model in await list_used_models(snapshots, now):
        price = book.price_for(model.provider, model.model, now, entry.above_input_tokens + 1, entry.project_id)
        if price is not None and price.id == entry.id:
            found.append(model)
    return tuple(found[:MAX_USED])


def _has(word: str) -> ColumnElement[bool]:
    text = (
        func.lower(PriceEntry.provider)
        + " "
        + func.lower(PriceEntry.model)
        + " "
        + func.lower(func.array_to_string(PriceEntry.aliases, " "))
        + " "
        + func.lower(func.coalesce(PriceEntry.project_id, ""))
    )
    return func.strpos(text, word) > 0


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a price matches; the pattern is None for exact names."""

    provider: str
    model: str
    aliases: tuple[str, ...]
    match: Match
    pattern: str | None


@dataclass(frozen=True, slots=True)
class Covered:
    """The provider's models in use that the names match, the most used first, and the number of its models."""

    models: tuple[UsedModel, ...]
    seen: int


def covered_by(names: Names, used: Iterable[UsedModel]) -> Covered:
    """Match the used models in the same way as runs are matched. Raises `InvalidExpression`."""
    if names.match is Match.REGEX and names.pattern is not None:
        demand_expression(names.pattern)
    price = Price(0, names.provider, names.model, 0, Rates.of(), estimated=False)
    index = PriceIndex([PriceCandidate(price, names.aliases, names.match, names.pattern)])
    seen = [model for model in used if canonical(model.provider) == canonical(names.provider)]
    return Covered(tuple(model for model in seen if index.find(model.provider, model.model)), len(seen))
