"""Change an experiment: its rule, and whether its badge is private."""

import secrets
from dataclasses import asdict

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.errors import NotFound
from runtally.experiments.rule import Rule, Window, validate
from runtally.experiments.verdict import Thresholds
from runtally.models.experiment import Experiment

TOKEN_BYTES = 16


async def get(session: AsyncSession, project_id: str, experiment_id: str) -> Experiment:
    """Return the experiment, which nobody else changes until the transaction ends. Raises `NotFound`."""
    experiment = await session.get(Experiment, (project_id, experiment_id), with_for_update=True)
    if experiment is None:
        raise NotFound(
            "There is no such experiment in this project: the first run that names it makes it. "
            "`runtally experiments list` shows all."
        )
    return experiment


def rule_of(experiment: Experiment) -> Rule:
    return Rule(
        Window(experiment.window_runs, experiment.window_hours),
        Thresholds(
            experiment.max_error_rate,
            experiment.max_p95_latency_ms,
            experiment.max_cost_per_run_usd,
            experiment.max_total_cost_usd,
            experiment.min_runs,
        ),
    )


def set_rule(session: AsyncSession, by: Actor, experiment: Experiment, rule: Rule) -> None:
    """Change the rule. Raises `InvalidThresholds`, and then changes nothing."""
    validate(rule)
    before, after = _flat(rule_of(experiment)), _flat(rule)
    record(session, by, Change("experiment.rule_set", experiment.id, experiment.project_id, before, after))
    experiment.window_runs = rule.window.runs
    experiment.window_hours = rule.window.hours
    experiment.max_error_rate = rule.thresholds.max_error_rate
    experiment.max_p95_latency_ms = rule.thresholds.max_p95_latency_ms
    experiment.max_cost_per_run_usd = rule.thresholds.max_cost_per_run_usd
    experiment.max_total_cost_usd = rule.thresholds.max_total_cost_usd
    experiment.min_runs = rule.thresholds.min_runs
    session.add(experiment)


def make_private(session: AsyncSession, by: Actor, experiment: Experiment) -> str:
    """Make the badge private, and return its new token. Without the token the badge says `unknown`; an old one is void."""
    record(session, by, Change("experiment.made_private", experiment.id, experiment.project_id))
    experiment.badge_token = token = secrets.token_urlsafe(TOKEN_BYTES)
    session.add(experiment)
    return token


def make_public(session: AsyncSession, by: Actor, experiment: Experiment) -> None:
    if experiment.badge_token is not None:
        record(session, by, Change("experiment.made_public", experiment.id, experiment.project_id))
    experiment.badge_token = None
    session.add(experiment)


def _flat(rule: Rule) -> dict[str, object]:
    window = {f"window_{name}": value for name, value in asdict(rule.window).items()}
    return window | asdict(rule.thresholds)
