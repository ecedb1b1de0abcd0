"""Looks whether there is something to tell, and decides it: each alert once, however many workers look."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

import structlog

from runtally.budgets import alert_queries, queries
from runtally.budgets.alert_queries import Hours
from runtally.budgets.anomaly import HOUR, Unusual, compared_hours, judged
from runtally.budgets.message import About, Message, anomaly_message, budget_message
from runtally.budgets.month import Month
from runtally.clock import Clock
from runtally.db.database import Connection, Database
from runtally.ids import uuid7
from runtally.paths import path_of

QUIET: Final = timedelta(hours=6)
"""A project's unusual cost is told of at most once in so long."""

log = structlog.get_logger()


class Watch:
    """Compares budgets and hours with what was told already; one per process."""

    def __init__(self, database: Database, clock: Clock, public_url: str | None) -> None:
        self._database = database
        self._clock = clock
        self._public_url = public_url

    async def look(self) -> int:
        """How many alerts there are to send since. Raises `StoreUnavailable`.

        An alert and its deliveries are rows of one transaction, so a crash leaves both or neither.
        """
        now = self._clock()
        async with self._database.transaction() as connection:
            if not await alert_queries.take_turn(connection):
                return 0
            decided = [
                await alert_queries.insert_alert(connection, project_id, uuid7(), message, now)
                for project_id, message in await self._found(connection, now)
            ]
        if any(decided):
            log.info("alerts_decided", alerts=sum(decided))
        return sum(decided)

    async def _found(self, connection: Connection, now: datetime) -> list[tuple[str, Message]]:
        budgets = await self._budgets(connection, now)
        return budgets + await self._anomalies(connection, now)

    async def _budgets(self, connection: Connection, now: datetime) -> list[tuple[str, Message]]:
        """Of several shares that were reached at once the highest is told, and with it those below."""
        told = await alert_queries.select_told(connection, Month.of(now).start)
        reached = [
            (use, percent)
            for use in await queries.select_uses(connection, now)
            if (percent := use.reached_percent()) is not None
        ]
        abouts = await self._abouts(connection, [use.project_id for use, _ in reached])
        messages = [(use.project_id, budget_message(abouts[use.project_id], use, percent)) for use, percent in reached]
        return [
            (project_id, message)
            for project_id, message in messages
            if told.get((project_id, message.subject), 0) < message.level
        ]

    async def _anomalies(self, connection: Connection, now: datetime) -> list[tuple[str, Message]]:
        """The hour that is over, and the one that is not, if it costs too much already."""
        this = now.replace(minute=0, second=0, microsecond=0)
        hours = (this - HOUR, this)
        asked = {*hours, *(past for hour in hours for past in compared_hours(hour))}
        of_projects = await alert_queries.select_hours(connection, asked, now - QUIET)
        found = [(one.project_id, unusual) for one in of_projects if (unusual := _first_unusual(one, hours))]
        abouts = await self._abouts(connection, [project_id for project_id, _ in found])
        messages = []
        for project_id, unusual in found:
            models = await alert_queries.select_models(connection, project_id, unusual.hour)
            messages.append((project_id, anomaly_message(abouts[project_id], unusual, models, now)))
        return messages

    async def _abouts(self, connection: Connection, project_ids: Sequence[str]) -> dict[str, About]:
        names = await alert_queries.select_names(connection, project_ids)
        return {id_: about(id_, names.get(id_, id_), self._public_url) for id_ in project_ids}


def about(project_id: str, name: str, public_url: str | None) -> About:
    url = f"{public_url.rstrip('/')}/projects/{path_of(project_id)}" if public_url else None
    return About(project_id, name, url)


def _first_unusual(of_project: Hours, hours: Sequence[datetime]) -> Unusual | None:
    costs = of_project.costs_usd
    for hour in hours:
        # Before its first run nothing was usual yet; later, an hour without runs cost nothing.
        past = [costs.get(one, Decimal(0)) for one in compared_hours(hour) if one >= of_project.first_at]
        if hour in costs and (found := judged(hour, costs[hour], past)):
            return found
    return None
