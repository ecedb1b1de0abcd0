"""Find the alerts that are over, so that the incidents that they opened are closed.

An alert on an hour is over once the latest hour is in order; by a threshold, once that hour begins after the alert. An hour with
too few runs says nothing. An alert on a budget is over when its period is, or when the budget has another amount or was removed.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from runtally.alerts import evaluation_queries, rule_watch
from runtally.alerts.budget_alerts import month_subject, whole_subject
from runtally.alerts.evaluation_queries import OpenAlert
from runtally.alerts.message import OF_USUAL
from runtally.alerts.reading import Reading, first_unusual
from runtally.alerts.rule_watch import finished_hour, last_hour, read_last_hour, read_usual
from runtally.alerts.rules import RULE_KINDS, Rule, is_usual, keeps_threshold
from runtally.budgets import queries
from runtally.clock import HOUR
from runtally.db.database import Connection
from runtally.models.alert import AlertKind
from runtally.usage.timeline import TimeSpan, floor


@dataclass(slots=True)
class RecoveryWatch:
    """Reads what has become of alerts with incidents; it remembers the hours that it compared. One per process."""

    _compared: set[tuple[str, datetime]] = field(default_factory=set)
    _next: set[tuple[str, datetime]] = field(default_factory=set)

    async def read_over(self, reading: Reading, now: datetime) -> list[OpenAlert]:
        """Return the alerts that are over."""
        opened = await evaluation_queries.select_open(reading.connection)
        self._next = set()
        # If the clock was set back, the period of an alert may not have begun.
        of_budgets = [alert for alert in opened if alert.kind is AlertKind.BUDGET and alert.created_at <= now]
        of_costs = [alert for alert in opened if alert.kind is AlertKind.ANOMALY]
        of_rules = [alert for alert in opened if alert.kind in RULE_KINDS]
        return [
            *(await _budgets(reading.connection, of_budgets, now) if of_budgets else ()),
            *(await _costs(reading, of_costs, now) if of_costs else ()),
            *(await self._rules(reading.connection, of_rules, now) if of_rules else ()),
        ]

    async def _rules(self, connection: Connection, opened: Sequence[OpenAlert], now: datetime) -> list[OpenAlert]:
        # None of them is quiet.
        known = await rule_watch.select_rules(connection, now, timedelta())
        rules = {(rule.project_id, rule.kind): rule for rule in known}
        span, hour = last_hour(now), finished_hour(now)
        over = list[OpenAlert]()
        of_threshold, of_usual = dict[OpenAlert, Rule](), dict[OpenAlert, Rule]()
        for alert in opened:
            rule = rules.get((alert.project_id, alert.kind))
            if alert.subject.endswith(OF_USUAL):
                if rule is None or not rule.of_unusual:
                    over.append(alert)
                else:
                    of_usual[alert] = rule
            elif rule is None or rule.threshold is None:
                over.append(alert)
            elif span.since >= alert.created_at or alert.created_at > now:
                of_threshold[alert] = rule
        kept = await _kept(connection, of_threshold.values(), span, now)
        usual = await self._usual(connection, of_usual.values(), hour, now)
        over += [one for one, rule in of_threshold.items() if rule in kept]
        return over + [one for one, rule in of_usual.items() if rule in usual]

    async def _usual(self, connection: Connection, rules: Collection[Rule], hour: datetime, now: datetime) -> set[Rule]:
        """Return the rules whose hour is as usual. Each hour of a project is compared once."""
        found, span = set[Rule](), TimeSpan(hour, hour + HOUR)
        for project_id in sorted({rule.project_id for rule in rules}):
            self._next.add((project_id, hour))
            if (project_id, hour) not in self._compared:
                of_project = [(rule, hour) for rule in rules if rule.project_id == project_id]
                read = await read_usual(connection, of_project, now)
                found |= {rule for rule, _, sums, past in read if is_usual(rule, span, sums, past)}
        return found

    def settle(self) -> None:
        """Remember which hours were compared, once what is over is stored."""
        self._compared = self._next


async def _kept(connection: Connection, rules: Collection[Rule], span: TimeSpan, now: datetime) -> set[Rule]:
    """Return the rules that this hour keeps to."""
    read = await read_last_hour(
        connection, sorted(set(rules), key=lambda rule: (rule.project_id, rule.kind)), span, now
    )
    return {rule for rule, sums in read if keeps_threshold(rule, span, sums)}


async def _budgets(connection: Connection, opened: Sequence[OpenAlert], now: datetime) -> list[OpenAlert]:
    current = {
        *((use.project_id, month_subject(use)) for use in await queries.select_uses(connection, now)),
        *((budget.project_id, budget.subject(now)) for budget in await queries.select_terms(connection)),
    }
    return [
        alert
        for alert in opened
        if not {(alert.project_id, alert.subject), (alert.project_id, whole_subject(alert.subject))} & current
    ]


async def _costs(reading: Reading, opened: Sequence[OpenAlert], now: datetime) -> list[OpenAlert]:
    hours, this = [finished_hour(now)], floor(now, HOUR)
    while hours[-1] < this:
        hours.append(hours[-1] + HOUR)
    projects = await reading.hourly_costs(sorted({alert.project_id for alert in opened}), hours)
    usual = {project.project_id for project in projects if first_unusual(project, hours) is None}
    return [alert for alert in opened if alert.project_id in usual]
