"""Create the alerts that are due, each once even if several processes evaluate; delete expired ones."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

import structlog

from runtally.alerts import delivery_queries, evaluation_queries
from runtally.alerts.anomaly import HOUR, UnusualHour, compared_hours, judge
from runtally.alerts.budget_alerts import BudgetWatch, Reached
from runtally.alerts.budget_message import budget_message, spending_message, values_message
from runtally.alerts.evaluation_queries import HourlyCosts
from runtally.alerts.message import Message, ProjectLink, anomaly_message, report_message
from runtally.alerts.rule_message import rule_message
from runtally.alerts.rule_watch import RuleWatch
from runtally.alerts.week import Week
from runtally.budgets import queries
from runtally.budgets.month import Month
from runtally.clock import Clock
from runtally.db.database import Connection, Database
from runtally.ids import uuid7
from runtally.models.rollup import ALL_PROJECTS_KEY
from runtally.paths import path_of

QUIET: Final = timedelta(hours=6)
"""A project has at most one alert on unusual cost, and one by each rule, in this time."""
# Long enough to compare with the same month of last year. A budget alerts again with its month, unusual cost with its
# hour.
KEPT: Final = timedelta(days=396)
EXPIRED_AT_ONCE: Final = 1000
ALL_NAME: Final = "All projects"

log = structlog.get_logger()


class AlertEvaluator:
    """Compares budgets and hours with the alerts that were sent already; one per process."""

    def __init__(self, database: Database, clock: Clock, public_url: str | None) -> None:
        self._database = database
        self._clock = clock
        self._public_url = public_url
        self._budget_watch = BudgetWatch()
        self._rule_watch = RuleWatch()

    async def evaluate(self) -> int:
        """Decide all alerts that are due, and return how many. Raises `StoreUnavailable`.

        An alert and its deliveries are rows of one transaction, so a crash leaves both or neither.
        """
        now = self._clock()
        async with self._database.transaction() as connection:
            if not await evaluation_queries.try_lock(connection):
                return 0
            # Begun once the lock is held, so it has what others decided. Sums that are merged meanwhile would count twice.
            async with self._database.snapshot() as reading:
                due = await self._due(reading, now)
            decided = [
                await evaluation_queries.insert_alert(connection, project_id, uuid7(), message, now)
                for project_id, message in due
            ]
        self._budget_watch.settle()
        self._rule_watch.settle()
        if any(decided):
            log.info("alerts_decided", alerts=sum(decided))
        return sum(decided)

    async def _due(self, connection: Connection, now: datetime) -> list[tuple[str, Message]]:
        found = await self._budgets(connection, now) + await self._rules(connection, now)
        return found + await self._anomalies(connection, now) + await self._reports(connection, now)

    async def _budgets(self, connection: Connection, now: datetime) -> list[tuple[str, Message]]:
        """Alert on the highest of several shares that were reached at once."""
        alerts = await evaluation_queries.select_budget_alerts(connection, Month.of(now).start)
        uses = [
            (use, percent)
            for use in await queries.select_uses(connection, now)
            if (percent := use.reached_percent()) is not None
        ]
        reached = await self._budget_watch.read_reached(connection, now, alerts)
        ids = [use.project_id for use, _ in uses] + [one.state.terms.project_id for one in reached]
        links = await self._links(connection, ids)
        messages = [(use.project_id, budget_message(links[use.project_id], use, percent)) for use, percent in uses]
        return [
            (project_id, message)
            for project_id, message in messages
            if max(alerts.get((project_id, message.subject), {}), default=0) < message.level
        ] + [(one.state.terms.project_id, reached_message(links[one.state.terms.project_id], one)) for one in reached]

    async def _anomalies(self, connection: Connection, now: datetime) -> list[tuple[str, Message]]:
        """Judge the hour that has ended last and the current one, which may cost too much already."""
        this = now.replace(minute=0, second=0, microsecond=0)
        hours = (this - HOUR, this)
        wanted = {*hours, *(past for hour in hours for past in compared_hours(hour))}
        projects = await evaluation_queries.select_hourly_costs(connection, wanted, now - QUIET)
        found = [(one.project_id, unusual) for one in projects if (unusual := _first_unusual(one, hours))]
        links = await self._links(connection, [project_id for project_id, _ in found])
        messages = []
        for project_id, unusual in found:
            models = await evaluation_queries.select_models(connection, project_id, unusual.hour)
            messages.append((project_id, anomaly_message(links[project_id], unusual, models, now)))
        return messages

    async def _rules(self, connection: Connection, now: datetime) -> list[tuple[str, Message]]:
        breaches = await self._rule_watch.read_breaches(connection, now, QUIET)
        links = await self._links(connection, [one.rule.project_id for one in breaches])
        return [(one.rule.project_id, rule_message(links[one.rule.project_id], one, now)) for one in breaches]

    async def _reports(self, connection: Connection, now: datetime) -> list[tuple[str, Message]]:
        spends = await evaluation_queries.select_weekly_spend(connection, Week.reported_at(now))
        links = await self._links(connection, [one.project_id for one in spends])
        return [(one.project_id, report_message(links[one.project_id], one, now)) for one in spends]

    async def _links(self, connection: Connection, project_ids: Sequence[str]) -> dict[str, ProjectLink]:
        names = {ALL_PROJECTS_KEY: ALL_NAME} | await evaluation_queries.select_names(connection, project_ids)
        return {id_: project_link(id_, names.get(id_, id_), self._public_url) for id_ in project_ids}


async def expire_alerts(database: Database, now: datetime) -> int:
    """Delete some of the alerts that are older than `KEPT`, and return how many. Raises `StoreUnavailable`."""
    async with database.connection() as connection:
        return await delivery_queries.delete_old(connection, now - KEPT, EXPIRED_AT_ONCE)


def project_link(project_id: str, name: str, public_url: str | None) -> ProjectLink:
    """Return the link to a project's page, or with a blank id to the overview."""
    page = "/" if project_id == ALL_PROJECTS_KEY else f"/projects/{path_of(project_id)}"
    url = f"{public_url.rstrip('/')}{page}" if public_url else None
    return ProjectLink(project_id, name, url)


def reached_message(project: ProjectLink, reached: Reached) -> Message:
    if reached.state.terms.is_each:
        return values_message(project, reached.state, reached.percent, reached.spendings, reached.part)
    return spending_message(project, reached.state, reached.percent, reached.spendings)


def _first_unusual(project: HourlyCosts, hours: Sequence[datetime]) -> UnusualHour | None:
    costs = project.costs_usd
    for hour in hours:
        # Before its first run nothing was usual yet; later, an hour without runs cost nothing.
        past = [costs.get(one, Decimal(0)) for one in compared_hours(hour) if one >= project.first_at]
        if hour in costs and (found := judge(hour, costs[hour], past)):
            return found
    return None
