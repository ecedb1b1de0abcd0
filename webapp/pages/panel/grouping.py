"""The groups of a page: their values, colours and labels, and the menu that chooses the dimension."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from uuid import UUID

from runtally.access.keys import names_of
from runtally.errors import DimensionNotTracked
from runtally.usage.dimensions import (
    DIMENSIONS,
    KEY,
    NO_VALUE,
    OTHER,
    Dimension,
    dimension_of_key,
)
from runtally.usage.filter import RunFilter
from runtally.usage.group_rows import MAX_RUNS_READ
from runtally.usage.grouped import MAX_GROUPS, read_groups_of, read_latencies_of, read_totals
from runtally.usage.reader import UsageReader
from runtally.usage.report import Report
from runtally.usage.summary import Summary
from runtally.usage.tracked_key_queries import select_tracked_keys
from webapp import formats, words
from webapp.charts import series
from webapp.charts.metrics import Metric, rank_of
from webapp.charts.series import MAX_LINES, Groups
from webapp.links import View, is_open
from webapp.pages.panel.ranges import Choice
from webapp.pages.panel.slots import read_slots

NOT_TOLD_APART = (
    f"This range has more than {formats.count(MAX_RUNS_READ)} runs, too many for p95 by {{dimension}}; this is the p95 of all "
    "of them. Choose a shorter range, or group by a tracked key."
)


@dataclass(frozen=True, slots=True)
class GroupMenu:
    """The control that chooses a dimension: those that every run has, then the keys that the project tracks."""

    label: str
    usual: tuple[Choice, ...]
    keys: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class PageGroups:
    """The groups of a page; empty without a dimension, and where stored sums have none."""

    keys: tuple[str, ...] = ()
    """The tracked keys that can be chosen."""
    bars: Summary | None = None
    """The groups in bars, the biggest by the metric."""
    drawn: Summary | None = None
    """The groups of the chart: the same, or their latencies."""
    previous: Summary | None = None
    """The groups of the period before, over all of it."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Values whose name is another text."""
    refusal: str | None = None
    """Why the groups cannot be told."""
    note: str | None = None
    """Why the chart tells nothing apart."""


async def read_page_groups(reader: UsageReader, view: View, report: Report) -> PageGroups:
    """Read the groups of a report. A question that stored sums cannot answer whole is refused."""
    dimension, run_filter = view.by, view.filter.replace(project_id=reader.project_id)
    found = PageGroups(await select_tracked_keys(reader.connection, reader.project_id))
    if dimension is not None:
        try:
            found = await _read_groups(reader, view.metric, report, run_filter, dimension, found)
        except DimensionNotTracked as error:
            found = replace(found, refusal=error.message)
    values = [value for (value,) in found.bars.groups] if found.bars and dimension == KEY else []
    return replace(found, names=await read_names(reader, run_filter, values))


async def _read_groups(  # noqa: PLR0913, PLR0917  # What is told apart, and what is known of it.
    reader: UsageReader,
    metric: Metric,
    report: Report,
    run_filter: RunFilter,
    dimension: Dimension,
    found: PageGroups,
) -> PageGroups:
    rank_by = rank_of(metric)
    bars = await read_groups_of(reader, report.bars, run_filter, dimension, rank_by)
    previous = report.previous
    if previous is not None:
        previous = (
            await read_groups_of(reader, previous, run_filter, dimension)
            if dimension in previous.by
            else await read_totals(reader, previous.window, run_filter, (dimension,), limit=MAX_GROUPS)
        )
    if metric is not Metric.LATENCY:
        return replace(found, bars=bars, drawn=bars, previous=previous)
    drawn = await read_latencies_of(reader, report.bars.window, run_filter, dimension, MAX_LINES)
    if drawn.cell_latencies or not drawn.groups:
        return replace(found, bars=bars, drawn=drawn, previous=previous)
    note = NOT_TOLD_APART.format(dimension=words.in_sentence(dimension))
    return replace(found, bars=bars, previous=previous, note=note)


async def read_names(reader: UsageReader, run_filter: RunFilter, values: Iterable[str] = ()) -> Mapping[str, str]:
    """Read what people call the keys with these ids, and the one that a filter keeps."""
    ids = {UUID(value) for value in values if value not in {NO_VALUE, OTHER}}
    ids |= {run_filter.key_id} if run_filter.key_id is not None else set()
    return {str(id_): name for id_, name in (await names_of(reader.connection, [*ids])).items()} if ids else {}


async def read_chart_groups(found: PageGroups, view: View) -> Groups | None:
    """Return the groups of a chart with the colour of each value; None if the chart has none."""
    if view.by is None or found.drawn is None:
        return None
    slots = await read_slots(view.by, series.charted(found.drawn, view.metric))
    return Groups(view.by, slots, found.names)


def group_menu(
    view: View, keys: Iterable[str], url_of: Callable[[View], str] = attrgetter("url"), *, is_table: bool = False
) -> GroupMenu:
    """Return the menu of dimensions, including "no grouping"."""
    listed = [one for one in DIMENSIONS.values() if is_open(one) and (is_table or one not in words.NOT_IN_CHARTS)]
    of_keys = [one for one in map(dimension_of_key, keys) if is_open(one) and one not in DIMENSIONS.values()]
    if view.by is not None and view.by not in {*listed, *of_keys}:
        of_keys.append(view.by)

    def choice(dimension: Dimension | None) -> Choice:
        name = "Nothing" if dimension is None else words.label_of(dimension)
        return Choice(name, url_of(view.replace(by=dimension)), dimension == view.by)

    return GroupMenu(
        label="Nothing" if view.by is None else words.label_of(view.by),
        usual=tuple(choice(one) for one in (*(() if is_table else (None,)), *listed)),
        keys=tuple(map(choice, of_keys)),
    )
