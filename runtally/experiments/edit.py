"""Change an experiment: its rule, and whether its badge is private."""

import secrets
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import datetime

from sqlalchemy import collate
from sqlalchemy.dialects.postgresql import insert
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.errors import InvalidName, NotFound
from runtally.experiments.verdict import Rule, Thresholds, Window, validate
from runtally.fields import MAX_NAME, trimmed
from runtally.models.experiment import Experiment

TOKEN_BYTES = 16


async def list_experiments(
    session: AsyncSession, project_id: str, after: str = "", most: int | None = None
) -> Sequence[Experiment]:
    """List the experiments of a project by id, at most so many of those after an id; ids are compared bytewise, as Python does."""
    place = collate(col(Experiment.id), "C")
    query = select(Experiment).where(Experiment.project_id == project_id, place > after).order_by(place).limit(most)
    return (await session.exec(query)).all()


async def list_ids(session: AsyncSession, project_id: str) -> Sequence[str]:
    return (await session.exec(select(Experiment.id).where(Experiment.project_id == project_id))).all()


async def create(session: AsyncSession, by: Actor, project_id: str, experiment_id: str, now: datetime) -> None:
    """Make an experiment, as its first run would; one that is there stays as it is. Raises `InvalidName`."""
    if not experiment_id or len(experiment_id) > MAX_NAME or experiment_id != trimmed(experiment_id.replace("\0", "")):
        raise InvalidName.at("experimentId", f"Give the experiment an id of 1 to {MAX_NAME} characters.")
    values = {"project_id": project_id, "id": experiment_id, "created_at": now}
    if (await session.exec(insert(Experiment).values(**values).on_conflict_do_nothing())).rowcount:
        record(session, by, Change("experiment.created", experiment_id, project_id))


async def get(session: AsyncSession, project_id: str, experiment_id: str) -> Experiment:
    """Return the experiment, which nobody else changes until the transaction ends. Raises `NotFound`."""
    experiment = await session.get(Experiment, (project_id, experiment_id), with_for_update=True)
    if experiment is None:
        raise NotFound("There is no such experiment in this project: the first run that names it makes it.")
    return experiment


def rule_of(experiment: Experiment) -> Rule:
    return Rule(
        Window(experiment.window_runs, experiment.window_hours),
        Thresholds(**{field.name: getattr(experiment, field.name) for field in fields(Thresholds)}),
    )


def set_rule(session: AsyncSession, by: Actor, experiment: Experiment, rule: Rule) -> None:
    """Change the rule. Raises `InvalidThresholds`, and then changes nothing."""
    validate(rule)
    before, after = _flat(rule_of(experiment)), _flat(rule)
    record(session, by, Change("experiment.rule_set", experiment.id, experiment.project_id, before, after))
    for column, value in after.items():
        setattr(experiment, column, value)
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
    """Return the columns of a rule."""
    window = {f"window_{name}": value for name, value in asdict(rule.window).items()}
    return window | asdict(rule.thresholds)
