"""What is stored with the runs of a project: the project itself, budgets, experiments, tracked keys and rules for names."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from api.managed.kind import At, Kind, Known, OfAll, ProjectId, Resource, of_row
from runtally.access import projects
from runtally.access.scopes import Scope
from runtally.budgets import edit as budgets
from runtally.budgets.edit import ALERT_PERCENTS
from runtally.experiments import edit as experiments
from runtally.experiments.rule import Rule, Window
from runtally.experiments.verdict import Thresholds
from runtally.fields import trimmed
from runtally.models.dimension import KeyState
from runtally.money import plain
from runtally.names import edit as names
from runtally.tracking import keys as tracking
from runtally.usage.dimensions import canonical_key, dimension_named


class ManagedProject(Resource, frozen=True, kw_only=True):
    """A project: its name, how long its runs are kept, and whether pages list it."""

    project_id: Annotated[str, Meta(max_length=128, description="The `projectId` of its runs.")]
    name: Annotated[str, Meta(max_length=128, description="Name that pages show; by default the id.")] = ""
    retention_days: Annotated[int | None, Meta(description="0 for ever, null as the server's RETENTION_DAYS.")] = None
    is_hidden: Annotated[bool, Meta(description="Not listed by pages; runs are still taken.")] = False


class ManagedBudget(Resource, frozen=True, kw_only=True):
    """A limit for the cost of a day or a month, of all runs or of those with a value."""

    project_id: OfAll
    dimension: Annotated[str, Meta(description="Whose values it is for, such as model; empty for all runs.")] = ""
    value: Annotated[str, Meta(description="Value that it is for; empty for each by itself.")] = ""
    period: Annotated[str, Meta(description="day or month.")] = "month"
    amount_usd: Annotated[Decimal, Meta(description="US dollars above 0, at most two decimals.")] = msgspec.field(
        name="amountUSD"
    )
    alert_percents: Annotated[tuple[int, ...], Meta(description="Shares of it at which alerts are sent.")] = (
        ALERT_PERCENTS
    )


class ManagedExperiment(Resource, frozen=True, kw_only=True):
    """An experiment and the rule of its verdict."""

    project_id: ProjectId
    experiment_id: Annotated[str, Meta(max_length=256, description="The `experimentId` of its runs.")]
    window_runs: Annotated[int | None, Meta(description="Judge at most this number of newest runs.")] = 100
    window_hours: Annotated[int | None, Meta(description="Judge the runs of this number of hours.")] = None
    min_runs: Annotated[int, Meta(description="No verdict with fewer runs.")] = 1
    max_error_rate: Annotated[Decimal | None, Meta(description="0 to 1.")] = Decimal("0.05")
    max_p95_latency_ms: int | None = msgspec.field(default=None, name="maxP95LatencyMs")
    max_cost_per_run_usd: Decimal | None = msgspec.field(default=None, name="maxCostPerRunUSD")
    max_total_cost_usd: Decimal | None = msgspec.field(default=None, name="maxTotalCostUSD")
    is_private: Annotated[bool, Meta(description="Whether its badge needs a token, which is then the secret.")] = False


class ManagedTrackedKey(Resource, frozen=True, kw_only=True):
    """A key of metadata with sums of its own."""

    project_id: ProjectId
    key: str


class ManagedNameRule(Resource, frozen=True, kw_only=True):
    """How the values of a key are stored, which may be names of people."""

    project_id: ProjectId
    key: Annotated[str, Meta(description="user, session, tags, or a key of metadata.")]
    storage: Annotated[str, Meta(description="hashed, dropped or plain.")]


Keyed = TypeVar("Keyed", ManagedTrackedKey, ManagedNameRule)


async def _projects(at: At, project_id: str) -> list[ManagedProject]:
    found = await projects.find_by_id(await at.cell(project_id), project_id) if project_id else None
    if found is None:
        return []
    hidden = found.archived_at is not None
    return [ManagedProject(project_id=found.id, name=found.name, retention_days=found.retention_days, is_hidden=hidden)]


async def _save_project(at: At, sent: ManagedProject, before: ManagedProject | None) -> None:
    if before is None and at.services.cells.directory is not None:
        await at.services.cells.directory.place(sent.project_id)
    session = await at.cell(sent.project_id)
    await projects.create(session, at.by, sent.project_id, at.now)
    await projects.rename(session, at.by, sent.project_id, sent.name)
    await projects.retain(session, at.by, sent.project_id, sent.retention_days)
    if sent.is_hidden:
        await projects.hide(session, at.by, sent.project_id, at.now)
    else:
        await projects.show_again(session, at.by, sent.project_id)


def _normal_project(_at: At, sent: ManagedProject, _known: Known) -> ManagedProject:
    id_ = trimmed(sent.project_id)
    return msgspec.structs.replace(sent, project_id=id_, name=sent.name.strip() or id_)


async def _budgets(at: At, project_id: str) -> list[ManagedBudget]:
    session = await at.cell(project_id)
    month = await budgets.get(session, project_id)
    rows = [*([month] if month else []), *await budgets.list_budgets(session, project_id)]
    return [of_row(ManagedBudget, one) for one in rows]


def _budget_form(sent: ManagedBudget) -> Mapping[str, str]:
    return {
        "dimension": sent.dimension,
        "value": sent.value,
        "period": sent.period,
        "amount": plain(sent.amount_usd) if sent.amount_usd.is_finite() else "",
        "alerts": ", ".join(map(str, sent.alert_percents)),
    }


async def _save_budget(at: At, sent: ManagedBudget, _before: ManagedBudget | None) -> None:
    session, known = await at.cell(sent.project_id), at.services.cells.of(sent.project_id or None).names
    await budgets.set_budget(session, at.by, sent.project_id, _budget_form(sent), at.now, known)


async def _remove_budget(at: At, one: ManagedBudget) -> None:
    await budgets.remove(await at.cell(one.project_id), at.by, one.project_id, _budget_form(one))


def _normal_budget(at: At, sent: ManagedBudget, known: Known) -> ManagedBudget:
    percents = tuple(sorted(set(sent.alert_percents)))
    sent = msgspec.structs.replace(
        sent, project_id=trimmed(sent.project_id), value=trimmed(sent.value), alert_percents=percents
    )
    if not sent.value or BUDGETS.key_of(sent) in known:
        return sent
    # A name that the project hashes is stored as its hash.
    dimension, stored = dimension_named(sent.dimension), at.services.cells.of(sent.project_id or None).names
    key = (dimension.tracked_as if dimension else None) or ""
    return msgspec.structs.replace(sent, value=stored.hash_of(sent.project_id, key, sent.value) or sent.value)


async def _experiments(at: At, project_id: str) -> list[ManagedExperiment]:
    found = await experiments.list_experiments(await at.cell(project_id), project_id)
    return [
        of_row(ManagedExperiment, one, experiment_id=one.id, is_private=one.badge_token is not None) for one in found
    ]


async def _save_experiment(at: At, sent: ManagedExperiment, _before: ManagedExperiment | None) -> str | None:
    session = await at.cell(sent.project_id)
    await experiments.create(session, at.by, sent.project_id, sent.experiment_id, at.now)
    experiment = await experiments.get(session, sent.project_id, sent.experiment_id)
    limits = Thresholds(
        sent.max_error_rate,
        sent.max_p95_latency_ms,
        sent.max_cost_per_run_usd,
        sent.max_total_cost_usd,
        sent.min_runs,
    )
    rule = Rule(Window(sent.window_runs, sent.window_hours), limits)
    if rule != experiments.rule_of(experiment):
        experiments.set_rule(session, at.by, experiment, rule)
    if not sent.is_private:
        experiments.make_public(session, at.by, experiment)
    elif experiment.badge_token is None:
        return experiments.make_private(session, at.by, experiment)
    return None


def _normal_experiment(_at: At, sent: ManagedExperiment, _known: Known) -> ManagedExperiment:
    return msgspec.structs.replace(sent, project_id=trimmed(sent.project_id), experiment_id=trimmed(sent.experiment_id))


async def _tracked_keys(at: At, project_id: str) -> list[ManagedTrackedKey]:
    found = await tracking.list_keys(await at.cell(project_id), project_id, at.now)
    return [ManagedTrackedKey(project_id=project_id, key=one.key) for one in found if one.state != KeyState.DROPPING]


async def _track(at: At, sent: ManagedTrackedKey, _before: ManagedTrackedKey | None) -> None:
    await tracking.track(await at.cell(sent.project_id), at.by, sent.project_id, sent.key, at.now)


async def _untrack(at: At, one: ManagedTrackedKey) -> None:
    await tracking.untrack(await at.cell(one.project_id), at.by, one.project_id, one.key, at.now)


async def _name_rules(at: At, project_id: str) -> list[ManagedNameRule]:
    found = await names.list_rules(await at.cell(project_id), project_id)
    return [ManagedNameRule(project_id=project_id, key=one.key, storage=one.storage) for one in found]


async def _save_name_rule(at: At, sent: ManagedNameRule, _before: ManagedNameRule | None) -> None:
    can_hash = at.services.cells.of(sent.project_id).names.can_hash
    session = await at.cell(sent.project_id)
    await names.set_rule(session, at.by, sent.project_id, sent.key, sent.storage, at.now, can_hash=can_hash)


async def _remove_name_rule(at: At, one: ManagedNameRule) -> None:
    await names.remove_rule(await at.cell(one.project_id), at.by, one.project_id, one.key)


def _with_key(_at: At, sent: Keyed, _known: Known) -> Keyed:
    return msgspec.structs.replace(sent, project_id=trimmed(sent.project_id), key=canonical_key(sent.key))


PROJECTS = Kind(
    "projects",
    ManagedProject,
    ("project_id",),
    Scope.PROJECT_WRITE,
    _projects,
    _save_project,
    normal=_normal_project,
    form={"days": "retentionDays"},
)
BUDGETS = Kind(
    "budgets",
    ManagedBudget,
    ("project_id", "dimension", "value", "period"),
    Scope.BUDGETS_WRITE,
    _budgets,
    _save_budget,
    _remove_budget,
    _normal_budget,
    form={"amount": "amountUSD", "alerts": "alertPercents"},
)
EXPERIMENTS = Kind(
    "experiments",
    ManagedExperiment,
    ("project_id", "experiment_id"),
    Scope.EXPERIMENTS_WRITE,
    _experiments,
    _save_experiment,
    normal=_normal_experiment,
)
TRACKED_KEYS = Kind(
    "trackedKeys",
    ManagedTrackedKey,
    ("project_id", "key"),
    Scope.PROJECT_WRITE,
    _tracked_keys,
    _track,
    _untrack,
    _with_key,
)
NAME_RULES = Kind(
    "nameRules",
    ManagedNameRule,
    ("project_id", "key"),
    Scope.PROJECT_WRITE,
    _name_rules,
    _save_name_rule,
    _remove_name_rule,
    _with_key,
)
