"""Read verdicts on experiments, computed from their runs. Days that are over may come from the memo."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from runtally.db.database import Connection
from runtally.errors import NotFound
from runtally.experiments import large, queries
from runtally.experiments.verdict import Measured
from runtally.usage.memo import DayMemo


@dataclass(frozen=True, slots=True)
class Question:
    """A request for a badge, by a caller who need not be known."""

    experiment_id: str
    project_id: str | None = None
    token: str | None = None


async def public_projects(connection: Connection, questions: Sequence[Question]) -> list[str | None]:
    """Find for each question the project of its one experiment; None when there is no single one.

    Several projects may have experiments with the same id. A token selects the private one that it belongs to. Without
    a token only public ones count, and if there are several the question must name the project: runs of two projects
    are never mixed, and none is taken for the other.
    """
    visible = await queries.select_visible(connection, [_looked_up(question) for question in questions])
    return [_single(found) for found in visible]


def _looked_up(question: Question) -> tuple[str, str | None, bytes | None]:
    if "\0" in f"{question.experiment_id}{question.project_id}":
        # Postgres stores no NUL, and no experiment has an empty id.
        return "", None, None
    sha256 = hashlib.sha256(question.token.encode(errors="replace")).digest() if question.token else None
    return question.experiment_id, question.project_id, sha256


def _single(found: Mapping[str, bool]) -> str | None:
    chosen = [project_id for project_id, is_private in found.items() if is_private] or list(found)
    return chosen[0] if len(chosen) == 1 else None


async def verdicts(
    connection: Connection, now: datetime, keys: Sequence[queries.Key], memo: DayMemo | None = None
) -> tuple[Measured, ...]:
    """Read these experiments with their verdicts, by project and id.

    The caller must be allowed to read their runs.
    """
    if memo is None:
        return await queries.select_experiments(connection, now, keys)
    return await large.select_experiments(connection, memo, now, keys)


async def verdict_on(
    connection: Connection, now: datetime, project_id: str, experiment_id: str, memo: DayMemo | None = None
) -> Measured:
    """Read one experiment with its verdict, private or not. Raises `NotFound`.

    The caller must be allowed to read its runs.
    """
    found = await verdicts(connection, now, [(project_id, experiment_id)], memo)
    if not found:
        raise NotFound("There is no such experiment in this project; the page Experiments lists all.")
    return found[0]
