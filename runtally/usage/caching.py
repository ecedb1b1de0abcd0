"""Prompt caches: the input that they served, the savings, and the writes that were never read."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from runtally.usage.dimensions import BY_MODEL, Dimension
from runtally.usage.filter import RunFilter
from runtally.usage.groups.groups import GroupAnswer
from runtally.usage.plan import Group, Question
from runtally.usage.reader import UsageReader
from runtally.usage.timeline import BucketWidth, Timeline, TimeSpan
from runtally.usage.totals import Totals
from runtally.usage.window import Window

MEASURES = (
    "runs",
    "unpriced",
    "cost_usd",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "cache_savings_usd",
)
MAX_GROUPS = 50
_MAX_MODELS = 200


@dataclass(frozen=True, slots=True)
class CacheUse:
    """The use of caches by each model, and the tokens that each wrote and never read."""

    models: Mapping[Group, Totals]
    """Each by provider and model, those with the most input first."""
    unread: Mapping[Group, int]
    """Tokens written to a cache on a day (UTC) beyond those read from it on that day, at the least: a token that is read was
    written once, so of what was written no more than what was read can have been read.
    """


async def read_cache_use(reader: UsageReader, window: Window) -> CacheUse:
    """Read the use of caches by the reader's project in a window from the stored sums of models."""
    timeline = Timeline.in_buckets(TimeSpan(window.start, window.until), BucketWidth.DAY, window.now)
    answer = await reader.groups(_question(reader, timeline, BY_MODEL, _MAX_MODELS))
    unread = defaultdict[Group, int](int)
    for (_, group), sums in answer.slices.items():
        unread[group] += max(0, sums.totals.cache_write_tokens - sums.totals.cached_input_tokens)
    return CacheUse({group: sums.totals for group, sums in answer.groups.items()}, unread)


async def read_cache_by(reader: UsageReader, window: Window, by: Dimension) -> GroupAnswer:
    """Read the use of caches by a dimension. Raises `DimensionNotTracked`."""
    timeline = window.as_one_bucket()
    return await reader.groups(_question(reader, timeline, (by,), MAX_GROUPS))


def _question(reader: UsageReader, timeline: Timeline, by: tuple[Dimension, ...], limit: int) -> Question:
    return Question(
        timeline,
        RunFilter(project_id=reader.project_id),
        by,
        MEASURES,
        limit=limit,
        rank_by="input_tokens",
    )
