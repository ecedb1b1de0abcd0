"""What each experiment of a project came to.

No rollup tells them apart, so runs are added up: a month of 200,000 takes longer than all the rest of a page. A process
remembers the sums up to this midnight.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from runtally.metrics.looking import Looking
from runtally.metrics.narrowed_queries import select_experiments
from runtally.metrics.only import Only
from runtally.metrics.values import NOTHING, Tally
from runtally.rollups.version_queries import select_versions_of_kept

ByExperiment: TypeAlias = Mapping[str, Tally]


async def read_experiments(looking: Looking, project_id: str, only: Only) -> dict[str, Tally]:
    """The runs of each experiment that has any in the window."""
    if only.is_all_but_failed:
        # Few fail, and what all came to is remembered of the page that one comes from.
        every = await read_experiments(looking, project_id, only.of_models)
        failed = await read_experiments(looking, project_id, only.failed)
        left = {name: tally - failed.get(name, NOTHING) for name, tally in every.items()}
        return {name: tally for name, tally in left.items() if tally.runs}
    since, until = looking.window.start, looking.window.until
    border = max(since, min(looking.midnight, until))
    past = await _read_past(looking, project_id, only, border) if since < border else {}
    today = await select_experiments(looking.connection, project_id, only, border, until) if border < until else {}
    return {name: past.get(name, NOTHING) + today.get(name, NOTHING) for name in (*past, *today)}


async def _read_past(looking: Looking, project_id: str, only: Only, until: datetime) -> ByExperiment:
    since, remembered = looking.window.start, looking.past.experiments
    versions = await select_versions_of_kept(looking.connection, [project_id], since, until)
    key, version = (project_id, only, since, until), versions.get(project_id)
    known = remembered.get(key, version, looking.now)
    if known is None:
        known = await select_experiments(looking.connection, project_id, only, since, until)
        remembered.keep(key, version, looking.now, known)
    return known
