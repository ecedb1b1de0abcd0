"""Create the alerts that are due, each once even if several processes evaluate; close those that are over; delete expired ones."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext
from datetime import datetime, timedelta
from typing import Final

import structlog

from runtally.access.teams import select_names as select_team_names
from runtally.access.teams import select_team_projects
from runtally.alerts import evaluation_queries, sender
from runtally.alerts.budget_alerts import (
    BudgetWatch,
    Reached,
    budget_message,
    end_of_yesterday,
    spending_message,
    values_message,
)
from runtally.alerts.evaluation_queries import OpenAlert
from runtally.alerts.event_rules import EventWatch, event_message
from runtally.alerts.message import Message, ProjectLink, anomaly_message, report_message, rule_message
from runtally.alerts.reading import CostWatch, Reading
from runtally.alerts.recovery import RecoveryWatch
from runtally.alerts.rule_watch import RuleWatch
from runtally.alerts.week import Week
from runtally.budgets import queries
from runtally.budgets.queries import select_changed
from runtally.budgets.use import OF_MONTH, Month
from runtally.clock import Clock, start_of_day
from runtally.db.database import Connection, Database
from runtally.db.probe import Watch
from runtally.errors import StoreUnavailable
from runtally.fields import TEAM, is_team
from runtally.ids import path_of, uuid7
from runtally.models.rollup import ALL_PROJECTS_KEY
from runtally.models.team import NO_TEAMS, Teams
from runtally.names import LiveNames

QUIET: Final = timedelta(hours=6)
"""A project has at most one alert on unusual cost, and one by each rule, in this time, unless its incident is over."""
# Long enough to compare with the same month of last year. A budget alerts again with its month, unusual cost with its
# hour.
KEPT: Final = timedelta(days=396)
EXPIRED_AT_ONCE: Final = 1000
ALL_NAME: Final = "Your organisation"

log = structlog.get_logger()


class AlertEvaluator:
    """Compares budgets and hours with the alerts that were sent already; one per process."""

    def __init__(  # noqa: PLR0913, PLR0917  # What all alerts are read from.
        self,
        database: Database,
        clock: Clock,
        public_url: str | None,
        others: Sequence[Watch] = (),
        names: LiveNames | None = None,
        control: Database | None = None,
    ) -> None:
        """The projects of other databases count for what is over all projects; without `names` no project hashes any.

        Keys and teams are in `control`, where that is another database.
        """
        self._database = database
        self._others = others
        self._clock = clock
        self._public_url = public_url
        self._budget_watch = BudgetWatch(names or LiveNames(database, None))
        self._cost_watch = CostWatch()
        self._rule_watch = RuleWatch()
        self._recovery_watch = RecoveryWatch()
        self._control = control if control and not control.is_same(database) else None
        self._team_names: Mapping[str, str] = {}
        self._event_watch = EventWatch(self._control)

    async def evaluate(self) -> int:
        """Decide all alerts that are due, and return how many; close the incidents of those that are over.

        Raises `StoreUnavailable`.

        An alert and its deliveries are rows of one transaction, so a crash leaves both or neither.
        """
        now = self._clock()
        async with self._database.transaction() as connection:
            if not await evaluation_queries.try_lock(connection):
                return 0
            # Begun once the lock is held, so it has what others decided. Sums that are merged meanwhile would count twice.
            try:
                due, over = await self._read_due(self._others, now)
            except StoreUnavailable:
                if not self._others:
                    raise
                # One of them may have failed after it was opened.
                due, over = await self._read_due((), now)
            decided = [
                await evaluation_queries.insert_alert(connection, project_id, uuid7(), message, now)
                for project_id, message in due
            ]
            closed = await evaluation_queries.close(connection, over, now)
        self._budget_watch.settle()
        self._cost_watch.settle()
        self._rule_watch.settle()
        self._recovery_watch.settle()
        self._event_watch.settle()
        if closed:
            log.info("alerts_over", incidents=closed)
        if any(decided):
            log.info("alerts_decided", alerts=sum(decided))
        return sum(decided)

    async def _read_due(
        self, watches: Sequence[Watch], now: datetime
    ) -> tuple[list[tuple[str, Message]], list[OpenAlert]]:
        """Read what is due and what is over, with the projects of these other databases, in one snapshot of each."""
        async with self._database.snapshot() as connection, AsyncExitStack() as stack:
            others = [one for watch in watches for one in await _opened(stack, watch)]
            teams, self._team_names = await self._read_teams(connection)
            reading = Reading(connection, others, len(others) == len(self._others), teams)
            due = await self._budgets(reading, now) + await self._rules(connection, now)
            due += await self._anomalies(reading, now) + await self._reports(reading, now)
            due += await self._events(connection, now)
            return due, await self._recovery_watch.read_over(reading, now)

    async def _budgets(self, reading: Reading, now: datetime) -> list[tuple[str, Message]]:
        """Alert on the highest of several shares that were reached at once.

        While a database is away, less is spent of a budget over all projects than truly is: what is reached is reached.
        """
        connection, others, before = reading.connection, reading.others, end_of_yesterday(now)
        alerts = await evaluation_queries.select_budget_alerts(connection, Month.of(before).start)
        found = await queries.select_uses(connection, now, others=others, teams=reading.teams)
        if Month.of(before) != Month.of(now):
            changed = {
                place[0] for place in await select_changed(connection, start_of_day(now)) if place[1:] == OF_MONTH
            }
            ended = await queries.select_uses(connection, before, others=others, teams=reading.teams)
            found += tuple(use for use in ended if use.project_id not in changed)
        uses = [(use, percent) for use in found if (percent := use.reached_percent()) is not None]
        reached = await self._budget_watch.read_reached(connection, now, alerts, others, reading.teams)
        ids = [use.project_id for use, _ in uses] + [one.state.terms.project_id for one in reached]
        links = await self._links(connection, ids)
        messages = [(use.project_id, budget_message(links[use.project_id], use, percent, now)) for use, percent in uses]
        return [
            (project_id, message)
            for project_id, message in messages
            if max(alerts.get((project_id, message.subject), {}), default=0) < message.level
        ] + [
            (one.state.terms.project_id, reached_message(links[one.state.terms.project_id], one, now))
            for one in reached
        ]

    async def _anomalies(self, reading: Reading, now: datetime) -> list[tuple[str, Message]]:
        """Judge the hours of a day, also the current one, which may cost too much already."""
        found = await self._cost_watch.read_unusual(reading, now, QUIET)
        links = await self._links(reading.connection, [project_id for project_id, _ in found])
        return [
            (id_, anomaly_message(links[id_], unusual, await reading.costliest(id_, unusual.hour), now))
            for id_, unusual in found
        ]

    async def _rules(self, connection: Connection, now: datetime) -> list[tuple[str, Message]]:
        breaches = await self._rule_watch.read_breaches(connection, now, QUIET)
        links = await self._links(connection, [breach.rule.project_id for breach in breaches])
        return [
            (breach.rule.project_id, rule_message(links[breach.rule.project_id], breach, now)) for breach in breaches
        ]

    async def _events(self, connection: Connection, now: datetime) -> list[tuple[str, Message]]:
        events = await self._event_watch.read_events(connection, now)
        links = await self._links(connection, [event.rule.project_id for event in events])
        return [(event.rule.project_id, event_message(links[event.rule.project_id], event, now)) for event in events]

    async def _reports(self, reading: Reading, now: datetime) -> list[tuple[str, Message]]:
        week = Week.reported_at(now)
        rows = await reading.connection.fetch(evaluation_queries.SELECT_DUE_REPORTS, week.due_at, week.name)
        due = [row[0] for row in rows]
        spends = await reading.sums(due, lambda one, ids: evaluation_queries.select_weekly_spend(one, ids, week))
        links = await self._links(reading.connection, [week.project_id for week in spends])
        return [(week.project_id, report_message(links[week.project_id], week, now)) for week in spends]

    async def _read_teams(self, connection: Connection) -> tuple[Teams, Mapping[str, str]]:
        """Read the projects of teams and the names of teams, where any has budgets or alerts here."""
        if not await connection.fetchval(evaluation_queries.SELECT_HAS_TEAMS):
            return NO_TEAMS, {}
        async with self._control.connection() if self._control else nullcontext(connection) as control:
            return await select_team_projects(control), await select_team_names(control)

    async def _links(self, connection: Connection, project_ids: Sequence[str]) -> dict[str, ProjectLink]:
        names = {ALL_PROJECTS_KEY: ALL_NAME, **self._team_names} | await evaluation_queries.select_names(
            connection, project_ids
        )
        return {id_: project_link(id_, names.get(id_, id_), self._public_url) for id_ in project_ids}


async def expire_alerts(database: Database, now: datetime) -> int:
    """Delete some of the alerts that are older than `KEPT`, and return how many. Raises `StoreUnavailable`."""
    async with database.connection() as connection:
        return await sender.delete_old(connection, now - KEPT, EXPIRED_AT_ONCE)


async def _opened(stack: AsyncExitStack, watch: Watch) -> Sequence[Connection]:
    """Open a snapshot of another database; none if it is away."""
    try:
        return [await stack.enter_async_context(watch.snapshot())]
    except StoreUnavailable:
        return []


def project_link(project_id: str, name: str, public_url: str | None) -> ProjectLink:
    """Return the link to the page of a project or team, or with a blank id to the overview."""
    page = "/" if project_id == ALL_PROJECTS_KEY else f"/projects/{path_of(project_id)}"
    if is_team(project_id):
        page, name = f"/admin/teams/{project_id.removeprefix(TEAM)}", f"Team {name}"
    url = f"{public_url.rstrip('/')}{page}" if public_url else None
    return ProjectLink(project_id, name, url)


def reached_message(project: ProjectLink, reached: Reached, now: datetime) -> Message:
    if reached.state.terms.is_each:
        return values_message(project, reached.state, reached.percent, reached.spendings, reached.part, now)
    return spending_message(project, reached.state, reached.percent, reached.spendings, now)
