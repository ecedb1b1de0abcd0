"""Rules on what happens once: a run that cost much, a model that is new or has no price, a key that is about to expire.

Each is named in one alert. A rule has at most one alert an hour; the next names all that came meanwhile. Runs and models are
those of the last day, so that what comes late is not missed.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from runtally.alerts.message import Message, ProjectLink, compose, iso, money, quoted
from runtally.clock import DAY, HOUR
from runtally.db.database import Connection, Database
from runtally.models.alert import EVENT_KINDS, AlertKind
from runtally.models.rollup import GRAINS
from runtally.money import as_json, plain
from runtally.usage.dimensions import OTHER_NAME
from runtally.usage.sums.tables import SLICES, TOTALS
from runtally.usage.timeline import floor

QUIET: Final = HOUR
MOST_NAMED: Final = 1_000
"""The most that one alert is about."""
MOST_LISTED: Final = 10
"""The most that a text lists; the document has all of them."""
_SHORT, _LASTING = GRAINS[0], GRAINS[-1]

# Parameters: now, how long an alert keeps quiet, the kinds. What was named is known for longer than it could be named again.
SELECT_EVENT_RULES = """
  SELECT rules.project_id,
         rules.kind,
         rules.threshold,
         rules.updated_at,
         coalesce(past.named, '{}') AS named
    FROM alert_rules AS rules
         CROSS JOIN LATERAL (SELECT max(created_at) AS last_at, array_agg(DISTINCT name) FILTER (WHERE name IS NOT NULL) AS named
                               FROM alerts
                                    LEFT JOIN LATERAL unnest(alerts.named) AS name ON TRUE
                              WHERE alerts.project_id = rules.project_id
                                AND alerts.kind = rules.kind
                                AND created_at > $1::timestamptz - CASE rules.kind WHEN 'key_expiry' THEN interval '100 days' ELSE interval '2 days' END) AS past
   WHERE rules.kind = ANY ($3::text[])
     AND (last_at IS NULL OR last_at <= $1::timestamptz - $2::interval OR last_at > $1::timestamptz + $2::interval)
ORDER BY rules.project_id, rules.kind
"""

SELECT_COSTS = f"""
  SELECT bucket, sum(cost_usd) AS cost_usd
    FROM {TOTALS.rows_of_projects} AS held
   WHERE project_id = $1
     AND grain = {_SHORT.minutes}
     AND bucket >= $2
GROUP BY bucket
  HAVING sum(cost_usd) > $3
"""

# The quarters of an hour are those that cost as much: all others have no such run.
SELECT_COSTLY = f"""
  SELECT runs.id, runs.provider, runs.model, runs.cost_usd, runs.occurred_at
    FROM unnest($2::timestamptz[]) AS quarters (bucket)
         JOIN runs
           ON runs.project_id = $1
          AND runs.occurred_at >= quarters.bucket
          AND runs.occurred_at < quarters.bucket + interval '{_SHORT.minutes} minutes'
   WHERE runs.cost_usd > $3
     AND runs.created_at >= $4
     AND runs.id <> ALL ($5::text[])
ORDER BY runs.cost_usd DESC, runs.id
   LIMIT {MOST_NAMED}
"""

SELECT_RECENT_MODELS = f"""
  SELECT provider, model
    FROM {SLICES.rows_of_projects} AS held
   WHERE project_id = $1
     AND grain = {_SHORT.minutes}
     AND bucket >= $2
     AND model <> '{OTHER_NAME}'
GROUP BY provider, model
  HAVING NOT $3 OR sum(unpriced) > 0
"""

SELECT_FIRST_USED = f"""
  SELECT provider, model
    FROM unnest($4::text[], $5::text[]) AS recent (provider, model)
   WHERE NOT EXISTS (SELECT
                       FROM {SLICES.rows_of_projects} AS earlier
                      WHERE earlier.project_id = $1
                        AND earlier.provider = recent.provider
                        AND earlier.model = recent.model
                        AND (   (earlier.grain = {_SHORT.minutes} AND earlier.bucket < $2)
                             OR (earlier.grain = {_LASTING.minutes} AND earlier.bucket < $6))
                   GROUP BY earlier.project_id
                     HAVING NOT $3 OR sum(earlier.unpriced) > 0)
ORDER BY provider, model
   LIMIT {MOST_NAMED}
"""

# A key that was rotated has a successor, and who rotated it knows until when it is taken.
SELECT_EXPIRING = """
  SELECT id, name, prefix, expires_at
    FROM api_keys
   WHERE project_id = $1
     AND revoked_at IS NULL
     AND expires_at > $2
     AND expires_at <= $3
     AND NOT EXISTS (SELECT
                       FROM api_keys AS successors
                      WHERE successors.replaces_id = api_keys.id)
ORDER BY expires_at, id
"""


@dataclass(frozen=True, slots=True)
class EventRule:
    """A rule of a project, and what its alerts have named."""

    project_id: str
    kind: AlertKind
    threshold: Decimal | None
    """An amount of US dollars, or a number of days."""
    since: datetime
    """When it was set."""
    named: frozenset[str]


@dataclass(frozen=True, slots=True)
class Happening:
    """A run, model or key that a rule is about."""

    name: str
    """The name by which later alerts know that it was named."""
    text: str
    facts: dict[str, object]


@dataclass(frozen=True, slots=True)
class Event:
    """What has happened by a rule since its last alert."""

    rule: EventRule
    happenings: tuple[Happening, ...]


@dataclass(slots=True)
class EventWatch:
    """Reads what happened; it remembers costs and models that it looked at. One per process."""

    control: Database | None
    """Where the keys are; None: in the same database."""
    _seen: dict[tuple[str, AlertKind], frozenset[tuple[object, ...]]] = field(default_factory=dict)
    _next: dict[tuple[str, AlertKind], frozenset[tuple[object, ...]]] = field(default_factory=dict)

    async def read_events(self, connection: Connection, now: datetime) -> list[Event]:
        """Return what each rule is to alert on; rules that alerted within the hour are left out."""
        rows = await connection.fetch(SELECT_EVENT_RULES, now, QUIET, list(EVENT_KINDS))
        self._next = dict(self._seen)
        found = list[Event]()
        for project_id, kind, threshold, since, named in rows:
            rule = EventRule(project_id, AlertKind(kind), threshold, since, frozenset(named))
            if happenings := await self._happened(connection, rule, now):
                found.append(Event(rule, happenings))
        return found

    def settle(self) -> None:
        """Remember what was looked at, once the alerts on it are stored."""
        self._seen = self._next

    async def _happened(self, connection: Connection, rule: EventRule, now: datetime) -> tuple[Happening, ...]:
        match rule.kind:
            case AlertKind.RUN_COST:
                found: Iterable[Happening] = await self._costly(connection, rule, now)
            case AlertKind.KEY_EXPIRY:
                # A connection that does not answer may not hold the locks of this one for long.
                async with self.control.connection() if self.control else nullcontext(connection) as keys:
                    found = await _expiring(keys, rule, now)
            case _:
                found = await self._first_used(connection, rule, now)
        return tuple(one for one in found if one.name not in rule.named)

    async def _costly(self, connection: Connection, rule: EventRule, now: datetime) -> list[Happening]:
        quarters = await connection.fetch(SELECT_COSTS, rule.project_id, now - DAY, rule.threshold)
        new = self._unseen(rule, map(tuple, quarters))
        if not new:
            return []
        named = (rule.threshold, rule.since, sorted(rule.named))
        runs = await connection.fetch(SELECT_COSTLY, rule.project_id, [bucket for bucket, _ in new], *named)
        if len(runs) == MOST_NAMED:
            # There may be more, which the next alert names.
            self._next.pop((rule.project_id, rule.kind), None)
        return [
            Happening(
                run["id"],
                f"{quoted(run['model'])} {money(run['cost_usd'])} at {run['occurred_at']:%d %b, %H:%M}",
                {
                    "runId": run["id"],
                    "provider": run["provider"],
                    "model": run["model"],
                    "costUSD": as_json(run["cost_usd"]),
                    "at": iso(run["occurred_at"]),
                },
            )
            for run in runs
        ]

    async def _first_used(self, connection: Connection, rule: EventRule, now: datetime) -> list[Happening]:
        since, is_unpriced = floor(max(now - DAY, rule.since), _SHORT.length), rule.kind is AlertKind.UNPRICED_MODEL
        recent = await connection.fetch(SELECT_RECENT_MODELS, rule.project_id, since, is_unpriced)
        new = sorted(self._unseen(rule, map(tuple, recent)), key=str)
        if not new:
            return []
        names = [provider for provider, _ in new], [model for _, model in new]
        bounds = rule.project_id, since, is_unpriced, *names, floor(since, _LASTING.length)
        return [
            Happening(
                f"{provider} {model}", f"{quoted(model)} of {quoted(provider)}", {"provider": provider, "model": model}
            )
            for provider, model in await connection.fetch(SELECT_FIRST_USED, *bounds)
        ]

    def _unseen(self, rule: EventRule, found: Iterable[tuple[object, ...]]) -> frozenset[tuple[object, ...]]:
        """Return what was not there, or was another one, when it was looked at last."""
        now_seen = frozenset(found)
        place = rule.project_id, rule.kind
        self._next[place] = now_seen
        return now_seen - self._seen.get(place, frozenset())


async def _expiring(connection: Connection, rule: EventRule, now: datetime) -> list[Happening]:
    until = now + timedelta(days=float(rule.threshold or 0))
    return [
        Happening(
            f"{key['id']} {iso(key['expires_at'])}",
            f"{quoted(key['name'] or key['prefix'])} on {key['expires_at']:%d %b %Y, %H:%M} UTC",
            {
                "keyId": str(key["id"]),
                "name": key["name"],
                "prefix": key["prefix"],
                "expiresAt": iso(key["expires_at"]),
            },
        )
        for key in await connection.fetch(SELECT_EXPIRING, rule.project_id, now, until)
    ]


def event_message(project: ProjectLink, event: Event, now: datetime) -> Message:
    """Write what has happened, in a line, in sentences and as JSON."""
    rule, happenings = event.rule, event.happenings
    number, more = len(happenings), len(happenings) - MOST_LISTED
    one = number == 1
    listed = ", ".join(each.text for each in happenings[:MOST_LISTED]) + (f", and {more:,} more" if more > 0 else "")
    match rule.kind:
        case AlertKind.RUN_COST:
            limit = f"${plain(rule.threshold or Decimal(0))}"
            title = f"{'a run' if one else f'{number:,} runs'} cost more than {limit}{'' if one else ' each'}"
            sentence, named = f"{'It is' if one else 'The costliest'}: {listed} (UTC).", "runs"
        case AlertKind.NEW_MODEL:
            title = f"{'a model is' if one else f'{number:,} models are'} used for the first time"
            sentence, named = f"New: {listed}.", "models"
        case AlertKind.UNPRICED_MODEL:
            title = f"{'a model has' if one else f'{number:,} models have'} no price"
            sentence = f"Without a price: {listed}. Costs are a minimum until an admin sets one, also for past runs."
            named = "models"
        case _:
            title = f"{'a key expires' if one else f'{number:,} keys expire'} soon"
            sentence = f"Refused after it expires: {listed}. Rotate it under Settings, Keys, before that."
            named = "keys"
    return compose(
        rule.kind,
        project,
        now,
        subject=iso(now),
        title=f"{project.shown}: {title}",
        sentences=[sentence],
        facts={named: [each.facts for each in happenings]}
        | ({"limitUSD": as_json(rule.threshold)} if rule.kind is AlertKind.RUN_COST and rule.threshold else {}),
        named=tuple(each.name for each in happenings),
    )
