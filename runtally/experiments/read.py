"""Verdicts on experiments, computed from the runs themselves whenever one is asked for."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Connection
from runtally.errors import NotFound
from runtally.experiments import queries
from runtally.experiments.rule import Measured
from runtally.experiments.verdict import Verdict, verdict_of


@dataclass(frozen=True, slots=True)
class Question:
    """What a badge is asked for by somebody who need not be known."""

    experiment_id: str
    project_id: str | None = None
    token: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """An experiment and its verdict."""

    experiment: Measured
    verdict: Verdict


async def public_verdict(connection: Connection, now: datetime, question: Question) -> Verdict | None:
    """The verdict that this question may have; None when there is no single experiment for it.

    An id can be that of experiments in several projects. A token picks the private one that it belongs to. Without it only
    public ones are looked at, and if these are several the question must name the project: runs of two projects are never
    mixed, and none is taken for the other.
    """
    if "\0" in f"{question.experiment_id}{question.project_id}":
        return None
    sha256 = hashlib.sha256(question.token.encode(errors="replace")).digest() if question.token else None
    found = await queries.select_visible(connection, now, question.experiment_id, question.project_id, sha256)
    found = tuple(one for one in found if one.is_private) or found
    return _judged(found[0]).verdict if len(found) == 1 else None


async def verdicts(connection: Connection, now: datetime, project_id: str | None) -> tuple[Judged, ...]:
    """All experiments of a project, or of all projects, by project and id; for whoever may read the runs."""
    return tuple(_judged(one) for one in await queries.select_experiments(connection, now, project_id))


async def verdict_on(connection: Connection, now: datetime, project_id: str, experiment_id: str) -> Judged:
    """One experiment, private or not; for whoever may read its runs. Raises `NotFound`."""
    found = await queries.select_experiments(connection, now, project_id, experiment_id)
    if not found:
        raise NotFound("There is no such experiment in this project; `runtally experiments list` shows all.")
    return _judged(found[0])


def _judged(experiment: Measured) -> Judged:
    return Judged(experiment, verdict_of(experiment.stats, experiment.rule.thresholds))
