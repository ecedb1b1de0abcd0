"""SQL of budgets: their terms, and their spending, which is read from the rollups, never from the runs."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import product

from runtally.budgets.use import BudgetTerms, Month, Place, Recent, Use, pace_since
from runtally.clock import DAY, HOUR, start_of_day
from runtally.db.combined import gathered
from runtally.db.database import Connection
from runtally.fields import is_of_several, is_team
from runtally.models.budget import BudgetPeriod
from runtally.models.rollup import ALL_PROJECTS_KEY, GRAINS, TOTAL_GRAINS
from runtally.models.team import NO_TEAMS, Teams
from runtally.usage.sums.tables import TOTALS
from runtally.usage.timeline import floor

# The pace begins with a bucket of this length, which is kept for ever; months begin with one of a day.
_GRAIN = GRAINS[-1].minutes
_HOURS, _DAYS = (next(grain.minutes for grain in TOTAL_GRAINS if grain.length == one) for one in (HOUR, DAY))

_BUDGETS = """SELECT project_id, amount_usd, alert_percents
                 FROM budgets
                WHERE dimension = ''
                  AND period = 'month'
                  AND ($1::text[] IS NULL OR project_id = ANY ($1))"""
# A database without the budget tells what its projects have spent.
_OF_ALL = "SELECT unnest($1::text[]) AS project_id, 0::numeric AS amount_usd, '{}'::smallint[] AS alert_percents"
# Parameters: projects, or NULL for all; start and end of the month; since when the pace is taken, and until when.
_USES = f"""
  SELECT budgets.project_id,
         budgets.amount_usd,
         budgets.alert_percents,
         first.bucket AS first_bucket,
         spent.spent_usd,
         recent.recent_usd,
         spent.unpriced,
         spent.is_minimum
    FROM ({{budgets}}) AS budgets
         CROSS JOIN LATERAL (SELECT min(bucket) AS bucket
                               FROM {TOTALS.rows} AS held
                              WHERE project_id = budgets.project_id
                                AND grain = {_GRAIN}) AS first
         CROSS JOIN LATERAL (
              SELECT coalesce(sum(cost_usd), 0) AS spent_usd,
                     coalesce(sum(unpriced), 0)::bigint AS unpriced,
                     coalesce(sum(unpriced + partly_priced) > 0, false) AS is_minimum
                FROM {TOTALS.rows} AS held
               WHERE project_id = budgets.project_id
                 AND grain = {_DAYS}
                 AND bucket >= $2
                 AND bucket < $3) AS spent
         CROSS JOIN LATERAL (
              SELECT coalesce(sum(cost_usd), 0) AS recent_usd
                FROM {TOTALS.rows} AS held
               WHERE project_id = budgets.project_id
                 AND grain = {_GRAIN}
                 AND bucket >= $4
                 AND bucket < $5) AS recent
ORDER BY budgets.project_id
"""
SELECT_USES = _USES.format(budgets=_BUDGETS)
SELECT_SPENDING = _USES.format(budgets=_OF_ALL)

SELECT_BUDGETED = """
SELECT project_id
  FROM budgets
 WHERE dimension = ''
   AND period = 'month'
   AND ($1::text IS NULL OR project_id = $1)
"""


async def select_budgeted(connection: Connection, project_id: str | None) -> frozenset[str]:
    """Read which projects have a budget: of all projects, or of this one."""
    return frozenset(row[0] for row in await connection.fetch(SELECT_BUDGETED, project_id))


async def select_uses(
    connection: Connection,
    now: datetime,
    project_ids: Sequence[str] | None = None,
    others: Sequence[Connection] = (),
    teams: Teams = NO_TEAMS,
) -> tuple[Use, ...]:
    """Read budgets and how much of each is used, of all projects or of these.

    The projects of other databases count for the budgets of teams, and for the one over all projects.
    """
    uses = await _select(connection, SELECT_USES, now, project_ids)
    # Of a team nothing was read yet, and over all projects this database.
    of_several = {use.project_id: {*teams.get(use.project_id, ())} for use in uses if is_of_several(use.project_id)}
    asked = [sorted({id_ for ids in of_several.values() for id_ in ids})] * (len(others) + 1)
    if ALL_PROJECTS_KEY in of_several:
        of_several[ALL_PROJECTS_KEY].add(ALL_PROJECTS_KEY)
        asked[1:] = [[ALL_PROJECTS_KEY, *ids] for ids in asked[1:]]
    asking = zip((connection, *others), asked, strict=True)
    found = await gathered(_select(one, SELECT_SPENDING, now, ids) for one, ids in asking if ids)
    more = [use for of_one in found for use in of_one]
    return tuple(
        sum((one for one in more if one.project_id in of_several.get(use.project_id, ())), use) for use in uses
    )


async def select_spending(
    connection: Connection,
    project_id: str,
    now: datetime,
    others: Sequence[Connection] = (),
    teams: Teams = NO_TEAMS,
) -> Use:
    """Read what a project or team, or with a blank id all, has spent in the month of `now`, as a budget of nothing."""
    ids = [project_id, *teams.get(project_id, ())]
    found = await gathered(_select(one, SELECT_SPENDING, now, ids) for one in (connection, *others))
    first, *more = [use for of_one in found for use in of_one]
    return sum(more, first)


async def _select(
    connection: Connection, sql: str, now: datetime, project_ids: Sequence[str] | None
) -> tuple[Use, ...]:
    month, since = Month.of(now), pace_since(now)
    rows = await connection.fetch(sql, project_ids, month.start, month.end, since, now)
    return tuple(
        Use(
            project_id=row["project_id"],
            amount_usd=row["amount_usd"],
            alert_percents=tuple(row["alert_percents"]),
            now=now,
            spent_usd=row["spent_usd"],
            recent=Recent(max(since, row["first_bucket"]), row["recent_usd"]) if row["first_bucket"] else None,
            unpriced=row["unpriced"],
            is_minimum=row["is_minimum"],
        )
        for row in rows
    )


async def get_use(
    connection: Connection,
    project_id: str,
    now: datetime,
    others: Sequence[Connection] = (),
    teams: Teams = NO_TEAMS,
) -> Use | None:
    """Return the use of the project's budget; None if it has none. Of several projects those of other databases count, too."""
    return next(iter(await select_uses(connection, now, [project_id], others, teams)), None)


async def read_basis(
    connection: Connection,
    project_id: str,
    now: datetime,
    others: Sequence[Connection] = (),
    teams: Teams = NO_TEAMS,
) -> tuple[Use, Use]:
    """Read what an amount is chosen by: the spending of this month so far, and of the month before."""
    last_month = Month.of(now).start - timedelta(microseconds=1)
    return (
        await select_spending(connection, project_id, now, others, teams),
        await select_spending(connection, project_id, last_month, others, teams),
    )


# Parameter: a project, or NULL for all.
SELECT_TERMS = """
  SELECT project_id, dimension, value, period, amount_usd, alert_percents
    FROM budgets
   WHERE (dimension <> '' OR period <> 'month')
     AND ($1::text IS NULL OR project_id = $1)
ORDER BY project_id, dimension, value, period
"""

SELECT_CHANGED = "SELECT project_id, dimension, value, period FROM budgets WHERE updated_at >= $1"

# Parameters: projects; start and end of the month, start and end of the day, start of the hour.
SELECT_SPENT = f"""
  SELECT project_id,
         coalesce(sum(cost_usd) FILTER (WHERE grain = {_DAYS}), 0) AS of_month,
         coalesce(sum(cost_usd) FILTER (WHERE grain = {_DAYS} AND bucket >= $4 AND bucket < $5), 0) AS of_day,
         coalesce(sum(cost_usd) FILTER (WHERE grain = {_HOURS}), 0) AS of_hour
    FROM {TOTALS.rows} AS held
   WHERE project_id = ANY ($1::text[])
     AND ((grain = {_DAYS} AND bucket >= $2 AND bucket < $3) OR (grain = {_HOURS} AND bucket = $6))
GROUP BY project_id
"""


async def select_terms(connection: Connection, project_id: str | None = None) -> tuple[BudgetTerms, ...]:
    """Read the terms of the budgets by hour, day or value of one project or of all."""
    return tuple(
        BudgetTerms(owner, dimension, value, BudgetPeriod(period), amount_usd, tuple(percents))
        for owner, dimension, value, period, amount_usd, percents in await connection.fetch(SELECT_TERMS, project_id)
    )


async def select_changed(connection: Connection, since: datetime) -> frozenset[Place]:
    """Read which budgets were set or changed since then: they say nothing of a period that had ended."""
    return frozenset(tuple(row) for row in await connection.fetch(SELECT_CHANGED, since))


async def select_spent(
    connection: Connection,
    project_ids: Collection[str],
    now: datetime,
    others: Sequence[Connection] = (),
    teams: Teams = NO_TEAMS,
) -> dict[tuple[str, BudgetPeriod], Decimal]:
    """Read what whole projects and teams have spent in the month, the day and the hour of `now`, from a row a day.

    The projects of other databases count for the budgets of teams and over all projects.
    """
    of_several = {id_: teams.get(id_, ()) if id_ else (id_,) for id_ in project_ids if is_of_several(id_)}
    asked = {id_ for ids in of_several.values() for id_ in ids}
    found = [await _spent(connection, {*project_ids, *asked}, now)]
    if asked:
        found += await gathered(_spent(one, asked, now) for one in others)
    spent: defaultdict[tuple[str, BudgetPeriod], Decimal] = defaultdict(Decimal)
    for key, usd in (item for one in found for item in one.items()):
        spent[key] += usd
    for team in filter(is_team, of_several):
        for one, period in product(teams.get(team, ()), BudgetPeriod):
            spent[team, period] += spent[one, period]
    return spent


async def _spent(
    connection: Connection, project_ids: Iterable[str], now: datetime
) -> dict[tuple[str, BudgetPeriod], Decimal]:
    month, today = Month.of(now), start_of_day(now)
    bounds = (month.start, month.end, today, today + DAY, floor(now, HOUR))
    rows = await connection.fetch(SELECT_SPENT, sorted(set(project_ids)), *bounds)
    return {(row["project_id"], period): row[f"of_{period}"] for row in rows for period in BudgetPeriod}
