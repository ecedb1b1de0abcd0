"""SQL of prices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import asyncpg

from runtally.db.database import Connection
from runtally.models.price import RATE_COLUMNS, Match, PriceSource
from runtally.models.rollup import ALL_PROJECTS_KEY, GRAINS
from runtally.pricing.currency import Rate
from runtally.pricing.match import Discount, PriceCandidate, price_of
from runtally.usage.sums.tables import SLICES

_CANDIDATE = f"""
  SELECT id,
         project_id,
         provider,
         model,
         aliases,
         match,
         pattern,
         above_input_tokens,
         {", ".join(RATE_COLUMNS)},
         nullif(effective_from, '-infinity') AS effective_from,
         nullif(effective_to, 'infinity') AS effective_to,
         estimated,
         source
    FROM price_entries
"""
SELECT_CANDIDATES = f"""{_CANDIDATE}
   WHERE withdrawn_at IS NULL
ORDER BY id
"""

# Withdrawn entries are included: runs that they priced still name them.
SELECT_CANDIDATES_OF = f"""{_CANDIDATE}
   WHERE id = ANY($1)
"""
SELECT_VARIANTS = """
  SELECT id,
         variants
    FROM price_entries
   WHERE variants IS NOT NULL
"""

# Three numbers of each table tell every change: a deletion changes the count, an insertion the greatest id, and a
# change that commits after a newer one still changes the sum.
_VERSION = """SELECT count(*)::text
               || '-' || coalesce(max(id), 0)::text
               || '-' || coalesce(sum(extract(epoch FROM updated_at)), 0)::text
          FROM"""
SELECT_VERSION = f"""
SELECT ({_VERSION} price_entries)
       || '/' || ({_VERSION} project_discounts)
       || '/' || ({_VERSION} currency_rates)
"""

SELECT_DISCOUNTS = """
  SELECT project_id,
         provider,
         percent,
         effective_from,
         effective_to
    FROM project_discounts
   WHERE $1::text IS NULL OR project_id = $1
ORDER BY id
"""

SELECT_RATES = """
  SELECT currency,
         since,
         rate
    FROM currency_rates
ORDER BY since
"""

# Suggestions: of the providers in use, which are few, and no more than a browser lists well.
SELECT_NAMES = """
  SELECT DISTINCT provider,
         model
    FROM price_entries
   WHERE withdrawn_at IS NULL
     AND lower(provider) = ANY($1)
ORDER BY provider, model
   LIMIT $2
"""


async def select_version(connection: Connection) -> str:
    """Read a text that differs whenever the registry differs."""
    return str(await connection.fetchval(SELECT_VERSION))


async def select_candidates(connection: Connection) -> tuple[PriceCandidate, ...]:
    return tuple(_candidate(row) for row in await connection.fetch(SELECT_CANDIDATES))


async def select_discounts(connection: Connection, project_id: str | None = None) -> tuple[Discount, ...]:
    """Read the discounts of one project, or of all."""
    return tuple(Discount(*row) for row in await connection.fetch(SELECT_DISCOUNTS, project_id))


async def select_rates(connection: Connection) -> tuple[Rate, ...]:
    """Read the rates of the currency of pages, in the order of their days."""
    return tuple(Rate(*row) for row in await connection.fetch(SELECT_RATES))


async def select_candidates_of(connection: Connection, ids: Sequence[int]) -> tuple[PriceCandidate, ...]:
    """Read the entries that still exist, withdrawn ones too."""
    return tuple(_candidate(row) for row in await connection.fetch(SELECT_CANDIDATES_OF, ids))


async def select_candidate(connection: Connection, entry_id: int) -> PriceCandidate | None:
    [candidate] = await select_candidates_of(connection, [entry_id]) or (None,)
    return candidate


async def select_variants(connection: Connection) -> dict[int, str]:
    """Read the variants of the entries that have any, withdrawn ones too."""
    return {row["id"]: row["variants"] for row in await connection.fetch(SELECT_VARIANTS)}


def _candidate(row: asyncpg.Record) -> PriceCandidate:
    return PriceCandidate(
        price=price_of(
            row.__getitem__,
            id=row["id"],
            provider=row["provider"],
            model=row["model"],
            above_input_tokens=row["above_input_tokens"],
            estimated=row["estimated"],
            effective_from=row["effective_from"],
            effective_to=row["effective_to"],
        ),
        aliases=tuple(row["aliases"]),
        match=Match(row["match"]),
        pattern=row["pattern"],
        source=PriceSource(row["source"]),
        project_id=row["project_id"],
    )


MAX_MODELS = 2_000
"""The models that are looked at, those with the most runs: a program may give each run one of its own."""
# Buckets of the longest grain: they are the fewest, and kept for ever. Sums of tokens stay numeric: 1,025 of the largest counts
# that a run may have are more than a bigint holds.
SELECT_USED_MODELS = f"""
  SELECT project_id,
         provider,
         model,
         sum(runs)::bigint AS runs,
         sum(unpriced)::bigint AS unpriced,
         sum(input_tokens) AS input_tokens,
         sum(output_tokens) AS output_tokens,
         max(bucket) AS last_used_at
    FROM {SLICES.rows} AS held
   WHERE project_id = ANY($2)
     AND grain = {GRAINS[-1].minutes}
     AND bucket >= $1
GROUP BY project_id, provider, model
  HAVING sum(runs) > 0
ORDER BY runs DESC, provider, model, project_id
   LIMIT {MAX_MODELS}
"""


@dataclass(frozen=True, slots=True)
class UsedModel:
    """The use of a provider's model; `last_used_at` is the start of the last bucket."""

    provider: str
    model: str
    runs: int
    unpriced: int
    input_tokens: int
    output_tokens: int
    last_used_at: datetime

    def __add__(self, other: "UsedModel") -> "UsedModel":
        """Return the use of the same model in two databases."""
        return replace(
            self,
            runs=self.runs + other.runs,
            unpriced=self.unpriced + other.unpriced,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            last_used_at=max(self.last_used_at, other.last_used_at),
        )


async def select_used_models(connection: Connection, since: datetime) -> tuple[UsedModel, ...]:
    """Read the models used since then, in all projects together, the most used first."""
    return tuple(used for _, used in await select_used_models_of(connection, since, (ALL_PROJECTS_KEY,)))


async def select_used_models_of(
    connection: Connection, since: datetime, projects: Iterable[str]
) -> tuple[tuple[str, UsedModel], ...]:
    """Read the models used since then in each of the projects, with its id."""
    rows = await connection.fetch(SELECT_USED_MODELS, since, list(projects))
    return tuple(
        (project_id, UsedModel(provider, model, runs, unpriced, int(read), int(written), last_used_at))
        for project_id, provider, model, runs, unpriced, read, written, last_used_at in rows
    )


async def select_priced_names(
    connection: Connection, providers: Iterable[str], limit: int
) -> tuple[tuple[str, str], ...]:
    """Return provider and model of the prices of these providers."""
    keys = sorted({provider.lower() for provider in providers})
    return tuple((row[0], row[1]) for row in await connection.fetch(SELECT_NAMES, keys, limit))
