"""The groups of a page: their values, colours and labels, and the menu that chooses the dimension."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from msgspec import Struct, field
from msgspec.structs import replace

from api.current import services
from runtally.access.keys import names_of
from runtally.errors import DimensionNotTracked
from runtally.models.dimension import MAX_VALUES
from runtally.usage.dimensions import (
    BY_MODEL,
    DIMENSIONS,
    KEY,
    NO_VALUE,
    OTHER,
    OTHER_NAME,
    Dimension,
    dimension_of_key,
)
from runtally.usage.filter import RunFilter
from runtally.usage.groups.rows import MAX_RUNS_READ
from runtally.usage.read import (
    has_hidden_values,
    latency_window,
    read_groups_of,
    read_summary,
)
from runtally.usage.reader import UsageReader
from runtally.usage.report import Report
from runtally.usage.summary import Summary
from runtally.usage.tracked_keys import read_tracked_keys
from runtally.usage.window import Window
from webapp import formats, words
from webapp.charts import series
from webapp.charts.metrics import Metric, rank_of
from webapp.charts.series import MAX_LINES, Groups
from webapp.pages.panel.chart_answer import read_slots
from webapp.pages.panel.narrowing import Choice
from webapp.project_pages import LINES, TABLES
from webapp.view import View, is_open

NOT_TOLD_APART = (
    f"This range has more than {formats.count(MAX_RUNS_READ)} runs, too many for p95 by {{dimension}}; this is the p95 of all "
    "of them. Choose a shorter range, or group by a tracked key."
)

HIDDEN = (
    f"On days with more than {formats.count(MAX_VALUES)} values of {{dimension}}, the further ones count as Other, so a value may "
    "have more than is shown."
)

BEYOND = (
    f"On days on which a project sends more than {formats.count(MAX_VALUES)} models, the further ones count as {OTHER_NAME}: each run "
    "keeps its name, but sums and filters do not tell them apart."
)


class GroupMenu(Struct, frozen=True):
    """The control that chooses a dimension: those that every run has, then the keys that the project tracks."""

    label: str
    usual: tuple[Choice, ...]
    keys: tuple[Choice, ...]
    lines_url: str | None
    """The page of the lines that the cost consists of; None there."""


class PageGroups(Struct, frozen=True):
    """The groups of a page; empty without a dimension, and where stored sums have none."""

    keys: tuple[str, ...] = ()
    """The tracked keys that can be chosen."""
    bars: Summary | None = None
    """The groups in bars, the biggest by the metric."""
    drawn: Summary | None = None
    """The groups of the chart: the same, or their latencies."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Values whose name is another text."""
    refusal: str | None = None
    """Why there are no groups."""
    note: str | None = None
    """Why the chart has no groups."""
    hidden: str | None = None
    """What the rest has in addition to small groups."""


async def read_page_groups(reader: UsageReader, view: View, report: Report) -> PageGroups:
    """Read the groups of a report. A question that stored sums cannot answer whole is refused."""
    dimension, run_filter = view.by, view.filter.replace(project_id=reader.project_id)
    keys, found = await reader.reads.together(
        read_tracked_keys(reader.snapshots, reader.project_id),
        _read_groups(reader, view.metric, report, run_filter, dimension),
    )
    values = [value for (value,) in found.bars.groups] if found.bars and dimension == KEY else []
    return replace(found, keys=keys, names=await read_names(reader, run_filter, values))


async def _read_groups(
    reader: UsageReader, metric: Metric, report: Report, run_filter: RunFilter, dimension: Dimension | None
) -> PageGroups:
    if dimension is None:
        return PageGroups()
    try:
        bars, latencies = await reader.reads.together(
            read_groups_of(reader, report.bars, run_filter, dimension, rank_of(metric)),
            _latencies_of_groups(reader, metric, report, run_filter, dimension),
        )
    except DimensionNotTracked as error:
        return PageGroups(refusal=error.message)
    found = PageGroups(bars=bars, hidden=await read_hidden(reader, bars.window, run_filter, dimension, bars))
    if latencies is None:
        return replace(found, drawn=bars)
    if latencies.slice_latencies or not latencies.groups:
        return replace(found, drawn=latencies)
    return replace(found, note=NOT_TOLD_APART.format(dimension=words.in_sentence(dimension)))


async def read_hidden(
    reader: UsageReader, window: Window, run_filter: RunFilter, dimension: Dimension, groups: Summary
) -> str | None:
    """Return what to say where the rest of the groups includes values beyond those that have stored sums."""
    if not any(OTHER in group for group in groups.groups):
        return None
    if dimension.tracked_as is None and dimension not in BY_MODEL:
        return None
    if not await has_hidden_values(reader, window, run_filter, dimension):
        return None
    return BEYOND if dimension in BY_MODEL else HIDDEN.format(dimension=words.in_sentence(dimension))


def note_of_names(groups: Summary) -> str | None:
    """Return what to say where some of the groups are models without sums of their own."""
    return BEYOND if any(OTHER_NAME in group for group in groups.groups) else None


async def _latencies_of_groups(
    reader: UsageReader, metric: Metric, report: Report, run_filter: RunFilter, dimension: Dimension
) -> Summary | None:
    if metric is not Metric.LATENCY:
        return None
    window = latency_window(report.bars.window, run_filter, (dimension,))
    # Of the groups with most runs, whose cost orders those that have as many.
    return await read_summary(
        reader,
        window,
        run_filter,
        (dimension,),
        has_latencies=True,
        limit=MAX_LINES,
        rank_by="runs",
        measures=("runs", "cost_usd"),
    )


async def read_names(reader: UsageReader, run_filter: RunFilter, values: Iterable[str] = ()) -> Mapping[str, str]:
    """Read what people call the keys with these ids, and the one that a filter keeps."""
    ids = {UUID(value) for value in values if value not in {NO_VALUE, OTHER}}
    ids |= {run_filter.key_id} if run_filter.key_id is not None else set()
    if not ids:
        return {}
    async with services().open_control(reader.snapshots) as control:
        return {str(id_): name for id_, name in (await names_of(control, [*ids])).items()}


async def read_chart_groups(found: PageGroups, view: View) -> Groups | None:
    """Return the groups of a chart with the colour of each value; None if the chart has none.

    Lines are fewer than bars and have no rest, which is what grey means: the other values of the list keep their colours.
    """
    if view.by is None or found.drawn is None:
        return None
    values = series.charted(found.drawn, view.metric)
    if not view.metric.is_sum and found.bars is not None:
        values += [value for value in series.charted(found.bars, Metric.COST) if value not in values]
    slots = await read_slots(view.by, values)
    return Groups(view.by, slots, found.names)


def group_menu(view: View, keys: Iterable[str]) -> GroupMenu:
    """Return the menu of dimensions; for a chart, with no grouping as one of them."""
    is_table = view.report in TABLES
    listed = [one for one in DIMENSIONS.values() if is_open(one) and (is_table or one not in words.NOT_IN_CHARTS)]
    of_keys = [one for one in map(dimension_of_key, keys) if is_open(one) and one not in DIMENSIONS.values()]
    if view.by is not None and view.by not in {*listed, *of_keys}:
        of_keys.append(view.by)

    def choice(dimension: Dimension | None) -> Choice:
        name = "Nothing" if dimension is None else words.label_of(dimension)
        return Choice(name, view.replace(by=dimension).url, dimension == view.by)

    return GroupMenu(
        label="Nothing" if view.by is None else words.label_of(view.by),
        usual=tuple(choice(one) for one in (*(() if is_table else (None,)), *listed)),
        keys=tuple(map(choice, of_keys)),
        lines_url=None if view.report is LINES else view.at(LINES).url,
    )
