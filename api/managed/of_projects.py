"""What is stored with the runs of a project: the project itself, budgets, experiments, tracked keys, rules for names, and alerts."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Annotated, ClassVar, Self

import msgspec
from msgspec import Meta, field

from api.managed.kind import At, Key, OfAll, Place, Resource
from runtally import names, tracking
from runtally.access import projects, teams
from runtally.access.scopes import Scope, demand
from runtally.alerts import rule_edit, targets
from runtally.alerts.evaluator import ALL_NAME, project_link
from runtally.alerts.registry import Channels
from runtally.alerts.rules import MIN_RUNS
from runtally.alerts.targets import NewTarget
from runtally.budgets import edit as budgets
from runtally.budgets.edit import ALERT_PERCENTS
from runtally.errors import InvalidAlertRule
from runtally.experiments import edit as experiments
from runtally.experiments.verdict import Rule, Thresholds, Window
from runtally.fields import camel, trimmed
from runtally.models.alert import AlertTarget
from runtally.models.dimension import KeyState
from runtally.models.experiment import Experiment
from runtally.money import plain
from runtally.pricing.draft import as_text
from runtally.usage.dimensions import canonical_key, dimension_named


class ManagedProject(Resource, frozen=True, kw_only=True):
    """A project: its name, how long its runs are kept, whether pages list it, and its team."""

    kind = "projects"
    keyed_by = ("project_id",)
    scope = Scope.PROJECT_WRITE
    form: ClassVar = {"days": "retentionDays"}
    may_be_pruned = False

    project_id: Annotated[str, Meta(max_length=128, description="The `projectId` of its runs.")]
    name: Annotated[str, Meta(max_length=128, description="Name that pages show; by default the id.")] = ""
    retention_days: Annotated[int | None, Meta(description="0 for ever, null as the server's RETENTION_DAYS.")] = None
    is_hidden: Annotated[bool, Meta(description="Not listed by pages; runs are still taken.")] = False
    team: Annotated[
        str | None,
        Meta(description="Team that owns it; empty for none, null as it is. To change it needs an admin key."),
    ] = None

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        found = await projects.find_by_id(await at.cell(project_id), project_id) if project_id else None
        if found is None:
            return []
        team = await teams.team_of(at.control, project_id)
        others = {"is_hidden": found.archived_at is not None, "team": teams.short(team.id) if team else None}
        return [cls.of(found, project_id=found.id, **others)]

    def normal(self, _at: At, known: Mapping[Key, Self]) -> Self:
        before = known.get(self.which)
        team = self.team.strip() or None if self.team is not None else before.team if before else None
        return self.replace(name=self.name.strip() or self.project_id, team=team)

    async def save(self, at: At, before: Self | None) -> None:
        if before is None and at.services.cells.directory is not None:
            await at.services.cells.directory.place(self.project_id)
        session = await at.cell(self.project_id)
        await projects.create(session, at.by, self.project_id, at.now)
        await projects.rename(session, at.by, self.project_id, self.name)
        await projects.retain(session, at.by, self.project_id, self.retention_days)
        if self.is_hidden:
            await projects.hide(session, at.by, self.project_id, at.now)
        else:
            await projects.show_again(session, at.by, self.project_id)
        if self.team != (before.team if before else None):
            demand(at.by, Scope.ADMIN, None)
            await teams.move(at.control, session, at.by, self.project_id, self.team)


class ManagedBudget(Resource, frozen=True, kw_only=True):
    """A limit for the cost of a day or a month, of all runs or of those with a value."""

    kind = "budgets"
    keyed_by = ("project_id", "dimension", "value", "period")
    is_of_teams = True
    scope = Scope.BUDGETS_WRITE
    form: ClassVar = {"amount": "amountUSD", "alerts": "alertPercents"}

    project_id: OfAll
    dimension: Annotated[str, Meta(description="Whose values it is for, such as model; empty for all runs.")] = ""
    value: Annotated[str, Meta(description="Value that it is for; empty for each by itself.")] = ""
    period: Annotated[str, Meta(description="hour, day or month.")] = "month"
    amount_usd: Annotated[Decimal, Meta(description="US dollars above 0, at most two decimals.")] = field(
        name="amountUSD"
    )
    alert_percents: Annotated[tuple[int, ...], Meta(description="Shares of it at which alerts are sent.")] = (
        ALERT_PERCENTS
    )

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        # A rule that another process has just set says by which value a budget is known.
        await at.services.cells.of_owner(project_id).names.refresh()
        session = await at.cell(project_id)
        month = await budgets.get(session, project_id)
        return [cls.of(one) for one in ([month] if month else []) + [*await budgets.list_budgets(session, project_id)]]

    def normal(self, at: At, known: Mapping[Key, Self]) -> Self:
        percents = tuple(sorted(set(self.alert_percents)))
        sent = self.replace(value=trimmed(self.value), alert_percents=percents)
        if not sent.value or sent.which in known:
            return sent
        # A name that the project hashes is stored as its hash.
        dimension, stored = dimension_named(sent.dimension), at.services.cells.of_owner(sent.project_id).names
        key = (dimension.tracked_as if dimension else None) or ""
        return sent.replace(value=stored.hash_of(sent.project_id, key, sent.value) or sent.value)

    async def save(self, at: At, _before: Self | None) -> None:
        session, known = await at.cell(self.project_id), at.services.cells.of_owner(self.project_id).names
        await budgets.set_budget(session, at.by, self.project_id, self._texts, at.now, known)

    async def remove(self, at: At) -> None:
        await budgets.remove(await at.cell(self.project_id), at.by, self.project_id, self._texts)

    @property
    def _texts(self) -> Mapping[str, str]:
        return {
            "dimension": self.dimension,
            "value": self.value,
            "period": self.period,
            "amount": plain(self.amount_usd) if self.amount_usd.is_finite() else "",
            "alerts": ", ".join(map(str, self.alert_percents)),
        }


class ManagedExperiment(Resource, frozen=True, kw_only=True):
    """An experiment and the rule of its verdict."""

    kind = "experiments"
    keyed_by = ("project_id", "experiment_id")
    scope = Scope.EXPERIMENTS_WRITE
    may_be_pruned = False

    experiment_id: Annotated[str, Meta(max_length=256, description="The `experimentId` of its runs.")]
    window_runs: Annotated[int | None, Meta(description="Judge at most this number of newest runs.")] = 100
    window_hours: Annotated[int | None, Meta(description="Judge the runs of this number of hours.")] = None
    min_runs: Annotated[int, Meta(description="No verdict with fewer runs.")] = 1
    max_error_rate: Annotated[Decimal | None, Meta(description="0 to 1.")] = Decimal("0.05")
    max_p95_latency_ms: int | None = field(default=None, name="maxP95LatencyMs")
    max_cost_per_run_usd: Decimal | None = field(default=None, name="maxCostPerRunUSD")
    max_total_cost_usd: Decimal | None = field(default=None, name="maxTotalCostUSD")
    is_private: Annotated[bool, Meta(description="Whether its badge needs a token, which is then the secret.")] = False

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        return await cls.page(at, project_id, None, None)

    @classmethod
    async def page(cls, at: At, project_id: str, after: Place | None, most: int | None) -> list[Self]:
        """List some of a project: of each program that names its runs anew there are very many."""
        after_id = after[0] if after else ""
        found = await experiments.list_experiments(await at.cell(project_id), project_id, after_id, most)
        return [cls._of(row) for row in found]

    @classmethod
    async def find(cls, at: At, project_id: str, id_: str) -> Self | None:
        names = await experiments.list_ids(await at.cell(project_id), project_id)
        wanted = (
            cls(project_id=project_id, experiment_id=name) for name in names if cls.id_of((project_id, name)) == id_
        )
        return next(iter((await one.beside(at)).values()), None) if (one := next(wanted, None)) else None

    async def beside(self, at: At) -> dict[Key, Self]:
        # Postgres stores no NUL.
        key = self.project_id, trimmed(self.experiment_id.replace("\0", ""))
        found = await (await at.cell(self.project_id)).get(Experiment, key)
        return {} if found is None else {key: self._of(found)}

    @classmethod
    def _of(cls, row: Experiment) -> Self:
        return cls.of(row, experiment_id=row.id, is_private=row.badge_token is not None).stamped()

    def normal(self, _at: At, _known: Mapping[Key, Self]) -> Self:
        return self.replace(experiment_id=trimmed(self.experiment_id))

    async def save(self, at: At, _before: Self | None) -> str | None:
        session = await at.cell(self.project_id)
        await experiments.create(session, at.by, self.project_id, self.experiment_id, at.now)
        experiment = await experiments.get(session, self.project_id, self.experiment_id)
        limits = Thresholds(**{field.name: getattr(self, field.name) for field in fields(Thresholds)})
        rule = Rule(Window(self.window_runs, self.window_hours), limits)
        if rule != experiments.rule_of(experiment):
            experiments.set_rule(session, at.by, experiment, rule)
        if not self.is_private:
            experiments.make_public(session, at.by, experiment)
        elif experiment.badge_token is None:
            return experiments.make_private(session, at.by, experiment)
        return None


class ManagedTrackedKey(Resource, frozen=True, kw_only=True):
    """A key of metadata with sums of its own."""

    kind = "trackedKeys"
    keyed_by = ("project_id", "key")
    scope = Scope.PROJECT_WRITE

    key: str

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        keys = await tracking.list_keys(await at.cell(project_id), project_id, at.now)
        kept = (row.key for row in keys if row.state != KeyState.DROPPING)
        return [cls(project_id=project_id, key=key) for key in kept]

    def normal(self, _at: At, _known: Mapping[Key, Self]) -> Self:
        return self.replace(key=canonical_key(self.key))

    async def save(self, at: At, _before: Self | None) -> None:
        await tracking.track(await at.cell(self.project_id), at.by, self.project_id, self.key, at.now)

    async def remove(self, at: At) -> None:
        await tracking.untrack(await at.cell(self.project_id), at.by, self.project_id, self.key, at.now)


class ManagedNameRule(Resource, frozen=True, kw_only=True):
    """How the values of a key are stored, which may be names of people."""

    kind = "nameRules"
    keyed_by = ("project_id", "key")
    scope = Scope.PROJECT_WRITE

    key: Annotated[str, Meta(description="user, session, tags, or a key of metadata.")]
    storage: Annotated[str, Meta(description="hashed, dropped or plain.")]

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        rules = await names.list_rules(await at.cell(project_id), project_id)
        return [cls.of(row) for row in rules]

    def normal(self, _at: At, _known: Mapping[Key, Self]) -> Self:
        return self.replace(key=canonical_key(self.key))

    async def save(self, at: At, _before: Self | None) -> None:
        rules = at.services.cells.for_project(self.project_id).names
        session, key = await at.cell(self.project_id), self.key
        await names.set_rule(session, at.by, self.project_id, key, self.storage, at.now, can_hash=rules.can_hash)
        at.names.add(rules)

    async def remove(self, at: At) -> None:
        at.names.add(at.services.cells.for_project(self.project_id).names)
        await names.remove_rule(await at.cell(self.project_id), at.by, self.project_id, self.key)


class ManagedAlertChannel(Resource, frozen=True, kw_only=True):
    """Where alerts go. No test message is sent there; a new mail address is asked for a confirmation first."""

    kind = "alertChannels"
    keyed_by = ("project_id", "address")
    is_of_teams = True
    scope = Scope.ALERTS_WRITE

    project_id: OfAll
    address: Annotated[
        str,
        Meta(
            max_length=2048,
            description="URL of Slack, Discord, Teams or of your own; a mail address; or an integration key of PagerDuty. Answers "
            "have its end alone, which stands for it where it is sent back.",
        ),
    ]
    of_unusual_cost: Annotated[bool, Meta(description="Also hours of unusual cost.")] = True
    weekly_report: Annotated[bool, Meta(description="Also a report each Monday.")] = False
    is_unconfirmed: Annotated[
        bool,
        Meta(
            description="Whether alerts wait until somebody at the mail address confirms it; ignored where it is sent."
        ),
    ] = False

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        found = await targets.list_targets(await at.cell(project_id), project_id)
        channels = at.services.channels
        return [
            cls.of(
                row,
                project_id=project_id,
                address=_shown(channels, row.kind, row.address),
                is_unconfirmed=row.is_unconfirmed,
            )
            for row in found
        ]

    def normal(self, at: At, known: Mapping[Key, Self]) -> Self:
        """Return it with the address that is shown, by which it is known, and the whole one as its secret."""
        sent = self.replace(address=self.address.strip())
        if sent.which in known:
            return sent
        channel, address = at.services.channels.recognise(sent.address)
        return sent.replace(address=_shown(at.services.channels, channel.kind, address), secret=address)

    async def save(self, at: At, before: Self | None) -> str | None:
        session, editor = await at.cell(self.project_id), at.services.cells.of_owner(self.project_id).alert_targets
        new = NewTarget(str(self.secret), of_unusual_cost=self.of_unusual_cost, weekly_report=self.weekly_report)
        if before is not None:
            await editor.change(session, at.by, await self._target(at), new)
            return None
        owner = self.project_id
        name = await teams.name_of(at.control, session, owner) if owner else ALL_NAME
        project = project_link(owner, name, at.services.settings.public_url)
        return (await editor.add(session, at.by, project, new)).secret

    async def remove(self, at: At) -> None:
        editor = at.services.cells.of_owner(self.project_id).alert_targets
        await editor.remove(await at.cell(self.project_id), at.by, await self._target(at))

    async def _target(self, at: At) -> AlertTarget:
        found = await targets.list_targets(await at.cell(self.project_id), self.project_id)
        return next(row for row in found if _shown(at.services.channels, row.kind, row.address) == self.address)


def _shown(channels: Channels, kind: str, address: str) -> str:
    """Return an address without its secret parts, as no other one is shown."""
    masked = channels[kind].mask(address)
    return masked if masked == address else f"{masked} #{hashlib.sha256(address.encode()).hexdigest()[:6]}"


_UNITS = {
    "error_rate": "_percent",
    "latency": "_ms",
    "cache_hit_rate": "_percent",
    "run_cost": "_usd",
    "key_expiry": "_days",
}
"""The fields of the form whose names say no unit, and how ours go on."""


class ManagedAlertRule(Resource, frozen=True, kw_only=True):
    """What an hour of the project may be like before it alerts, by a threshold or compared with the usual hour; and what alerts once."""

    kind = "alertRules"
    keyed_by = ("project_id",)
    scope = Scope.ALERTS_WRITE
    form: ClassVar = {name: camel(name + unit) for name, unit in _UNITS.items()}

    error_rate_percent: Decimal | None = None
    error_rate_unusual: bool = False
    latency_ms: Decimal | None = None
    latency_unusual: bool = False
    cache_hit_rate_percent: Decimal | None = None
    cache_hit_rate_unusual: bool = False
    run_cost_usd: Annotated[Decimal | None, Meta(description="A single run cost more.")] = None
    new_model: Annotated[bool, Meta(description="A model is used for the first time.")] = False
    unpriced_model: Annotated[bool, Meta(description="A model has its first runs without a price.")] = False
    key_expiry_days: Annotated[Decimal | None, Meta(description="A key of the project expires in fewer days.")] = None
    min_runs: Annotated[int, Meta(description="An hour with fewer runs says nothing.")] = MIN_RUNS

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        rules = await rule_edit.list_rules(await at.cell(project_id), project_id)
        # Empty texts are what is not set.
        texts = {cls.form.get(name, camel(name)): text for name, text in rule_edit.as_fields(rules).items() if text}
        return [msgspec.convert({"projectId": project_id, **texts}, cls, strict=False)] if rules else []

    async def save(self, at: At, _before: Self | None) -> None:
        values = {name: getattr(self, name + _UNITS.get(name, "")) for name in rule_edit.as_fields(())}
        set_ = {name: value for name, value in values.items() if value is not None and value is not False}
        texts = {name: "1" if value is True else as_text(value) for name, value in set_.items()}
        if texts.keys() <= {"min_runs"}:
            raise InvalidAlertRule(
                "Set a rule, such as a threshold or a comparison with the usual hour, or delete these rules."
            )
        await rule_edit.set_rules(await at.cell(self.project_id), at.by, self.project_id, texts, at.now)

    async def remove(self, at: At) -> None:
        await rule_edit.set_rules(await at.cell(self.project_id), at.by, self.project_id, {}, at.now)
