"""The groups of a report: the menu that chooses a dimension, what the chart groups by, and the lists of values by cost or failures."""

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from uuid import UUID

from msgspec import Struct, field
from msgspec.structs import replace

from api.current import services
from runtally.access.keys import names_of
from runtally.errors import DimensionNotTracked
from runtally.models.dimension import MAX_VALUES
from runtally.models.run import Status
from runtally.usage.dimensions import (
    BY_MODEL,
    DIMENSIONS,
    ERROR_CODE,
    EXPERIMENT,
    KEY,
    NO_VALUE,
    OTHER,
    OTHER_NAME,
    PROJECT,
    STATUS,
    Dimension,
    dimension_of_key,
)
from runtally.usage.filter import ALL_RUNS, Outcome, RunFilter
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
from runtally.usage.totals import Totals, total_of
from runtally.usage.tracked_keys import read_tracked_keys
from runtally.usage.window import Window
from webapp import formats, words
from webapp.addresses import address_of
from webapp.charts import series
from webapp.charts.look import OTHER as OTHER_SLOT
from webapp.charts.metrics import Metric, rank_of
from webapp.charts.series import MAX_LINES, Groups
from webapp.pages.panel.chart_answer import read_slots
from webapp.pages.panel.narrowing import Choice, toggled, value_urls
from webapp.project_pages import BREAKDOWN, LINES, TABLES
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
    # These are the groups with most runs; cost orders those that have as many.
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


async def read_chart_groups(groups: PageGroups, view: View) -> Groups | None:
    """Return the groups of a chart with the colour of each value; None if the chart has none.

    Lines are fewer than bars and have no rest, which is what grey means: the other values of the list keep their colours.
    """
    if view.by is None or groups.drawn is None:
        return None
    values = series.charted(groups.drawn, view.metric)
    if not view.metric.is_sum and groups.bars is not None:
        values += [value for value in series.charted(groups.bars, Metric.COST) if value not in values]
    slots = await read_slots(view.by, values)
    return Groups(view.by, slots, groups.names)


def group_menu(view: View, keys: Iterable[str]) -> GroupMenu:
    """Return the menu of dimensions; for a chart, with no grouping as one of them."""
    is_table = view.report in TABLES
    listed = [
        dimension
        for dimension in DIMENSIONS.values()
        if is_open(dimension) and (is_table or dimension not in words.NOT_IN_CHARTS)
    ]
    of_keys = [
        dimension
        for dimension in map(dimension_of_key, keys)
        if is_open(dimension) and dimension not in DIMENSIONS.values()
    ]
    if view.by is not None and view.by not in {*listed, *of_keys}:
        of_keys.append(view.by)

    def choice(dimension: Dimension | None) -> Choice:
        name = "Nothing" if dimension is None else words.label_of(dimension)
        return Choice(name, view.replace(by=dimension).url, dimension == view.by)

    return GroupMenu(
        label="Nothing" if view.by is None else words.label_of(view.by),
        usual=tuple(choice(dimension) for dimension in (*(() if is_table else (None,)), *listed)),
        keys=tuple(map(choice, of_keys)),
        lines_url=None if view.report is LINES else view.at(LINES).url,
    )


MAX_BARS = 50
"""The names with a row each: some clients send a model, or an error code, of its own for each run."""


class Bar(Struct, frozen=True):
    """A name, what it cost, and its bar as percent of the longest."""

    name: str
    slot: str | None
    length: float
    share: str
    amount: str
    url: str | None
    """The page of its runs alone, or of all runs again if it is of these."""
    is_chosen: bool


class ProjectBars(Struct, frozen=True):
    """A page of projects as a list among others."""

    summary: Summary
    first_url: str | None
    """The page of the most expensive; None if it is this one."""
    next_url: str | None


class BarList(Struct, frozen=True):
    """Names by cost, the most expensive first."""

    id: str
    heading: str
    unit: str
    bars: tuple[Bar, ...]
    table_url: str | None = None
    """The URL of the page with all figures of the list."""
    table_name: str | None = None
    """What the link to it says, where that is not to compare them."""


def bar_lists(  # noqa: PLR0913, PLR0917  # What the lists are of.
    report: Report,
    view: View,
    groups: PageGroups,
    drawn: Groups | None,
    projects: ProjectBars | None,
    kinds: Mapping[tuple[str, Status], int] | None,
) -> tuple[BarList, ...]:
    """Return the values of the chosen dimension first; only they have colours, which mean their series in the chart."""
    slots = drawn.slots if drawn else {}
    known: dict[Dimension, Mapping[str, Totals]] = {}
    if groups.bars is not None and view.by is not None:
        known[view.by] = groups.bars.list_by(view.by)
    if projects is not None:
        known[PROJECT] = projects.summary.list_by(PROJECT)
    for dimension in BY_MODEL[::-1]:
        if report.models is not None and dimension not in known:
            known[dimension] = report.models.list_by(dimension)
    lists = []
    for dimension in sorted(known, key=lambda one: (one != view.by, one != PROJECT)):
        colours = slots if dimension == view.by else None
        table_url: str | None = view.replace(by=dimension).at(BREAKDOWN).url
        rest_url = table_url
        # The name of a key is no plural, as "models" is.
        table_name = None if words.is_built_in(dimension) else "Compare values"
        if dimension == PROJECT and projects is not None:
            table_url, rest_url, table_name = projects.first_url, projects.next_url, "Most expensive"
        bars = _bars(known[dimension], view, dimension, rest_url, colours, groups.names, report.bars.total.cost_usd)
        heading = words.heading_of(dimension)
        id_ = heading.lower() if dimension in BY_MODEL else "groups"
        lists.append(BarList(id_, heading, "Cost", bars, table_url, table_name))
    if report.experiments and view.by != EXPERIMENT:
        whole = report.bars.total.cost_usd
        table_url = view.replace(by=EXPERIMENT).at(BREAKDOWN).url
        experiments = _bars(report.experiments, view, EXPERIMENT, table_url, whole_usd=whole)
        lists.append(BarList("experiments", "Experiments", "Cost", experiments, table_url))
    # Runs that all ended in one way cannot be told apart by it.
    if view.project_id is not None and report.bars.total.failed and view.filter.status is None:
        url = address_of("errors.show", view.replace(filter=ALL_RUNS).filter_query, project_id=view.project_id)
        failures = _failures(report.bars.total, view, kinds)
        lists.append(BarList("failures", "Errors by kind", "Failed runs", failures, url, "See errors"))
    return tuple(lists)


def _bars(  # noqa: PLR0913, PLR0917  # What bars are shown with.
    groups: Mapping[str, Totals],
    view: View,
    dimension: Dimension,
    rest_url: str | None,
    slots: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
    whole_usd: Decimal = Decimal(0),
) -> tuple[Bar, ...]:
    """Return the bars of the dearest of these values, and one of all others, which leads to the page that lists them.

    Shares are of what all runs cost.
    """
    ranked = sorted(groups.items(), key=lambda item: item[0] == OTHER)
    rest, others = ranked[MAX_BARS:], ""
    if len(rest) > 1:
        # Groups that were read without their names are among them, so that their number is not known.
        others = words.OTHER_NAME if rest[-1][0] == OTHER else f"{formats.count(len(rest))} others"
        ranked = [*ranked[:MAX_BARS], (OTHER, total_of(totals for _, totals in rest))]
    money = formats.column_money(totals.cost_usd for _, totals in ranked)
    longest = max((totals.cost_usd for _, totals in ranked), default=Decimal(0))
    chosen = view.filter.value_of(dimension)
    url_of = view.project_urls() if dimension == PROJECT else value_urls(view, dimension)

    def bar(value: str, totals: Totals) -> Bar:
        has_cost = totals.runs > totals.unpriced
        return Bar(
            others if others and value == OTHER else words.value_name(dimension, value, names),
            None if slots is None else slots.get(value, OTHER_SLOT),
            length=round(float(totals.cost_usd / longest * 100), 2) if longest else 0,
            share=formats.share(totals.cost_usd, whole_usd) if has_cost else formats.NOTHING,
            amount=money(totals.cost_usd) if has_cost else "no price",
            url=rest_url if value == OTHER else url_of(value),
            is_chosen=dimension != PROJECT and value == chosen,
        )

    return tuple(bar(value, totals) for value, totals in ranked)


def _failures(total: Totals, view: View, kinds: Mapping[tuple[str, Status], int] | None) -> tuple[Bar, ...]:
    """Return the failed runs by error code, where that is known, else by status; their cost matters little."""
    whole = {Status.ERROR: total.failed - total.timeouts, Status.TIMEOUT: total.timeouts}
    failed = _by_kind(kinds) if kinds is not None else {status: runs for status, runs in whole.items() if runs}
    ranked = sorted(failed.items(), key=lambda item: (-item[1], item[0]))
    rest = dict([item for item in ranked if not isinstance(item[0], Status)][MAX_BARS:])
    longest = max(failed.values(), default=0)

    def bar(name: str, runs: int, dimension: Dimension | None, value: str = "") -> Bar:
        return Bar(
            name,
            None,
            # All others together may be more than any of them.
            length=min(round(runs / longest * 100, 2), 100),
            share=formats.share(Decimal(runs), Decimal(total.failed)),
            amount=formats.count(runs),
            url=None if dimension is None else toggled(view, dimension, value),
            is_chosen=dimension is not None and view.filter.value_of(dimension) == value,
        )

    found = list[Bar]()
    for kind, runs in ranked:
        if kind in rest:
            continue
        if not isinstance(kind, Status):
            found.append(bar(kind, runs, ERROR_CODE, kind))
        elif runs == whole[kind]:
            found.append(bar(kind.capitalize(), runs, STATUS, kind))
        else:
            # No filter keeps those without a code alone.
            found.append(bar(f"{kind.capitalize()}, no code", runs, None))
    if rest:
        name = "1 other code" if len(rest) == 1 else f"{formats.count(len(rest))} other codes"
        others = bar(name, sum(rest.values()), None)
        found.append(replace(others, url=failed_codes_url(view)))
    return tuple(found)


def failed_codes_url(view: View) -> str:
    """Return the page that lists the error codes of these runs."""
    return view.replace(by=ERROR_CODE, filter=view.filter.replace(status=Outcome.FAILED)).at(BREAKDOWN).url


def _by_kind(kinds: Mapping[tuple[str, Status], int]) -> Mapping[str, int]:
    """Add runs up by their error code, and those without one by their status."""
    runs: Counter[str] = Counter()
    for (code, status), number in kinds.items():
        runs[code or status] += number
    return runs
