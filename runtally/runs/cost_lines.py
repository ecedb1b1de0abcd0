"""The cost of many runs by line: what input, cache reads, output, searches, service tiers and regions came to.

The lines add up to the cost to the last digit. Costs without lines have one of their own: those that were reported, those that
differ from what their price says today, and those of runs that are in the database no more.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from heapq import nsmallest

from runtally.db.combined import gathered
from runtally.db.database import Connection
from runtally.errors import DimensionNotTracked
from runtally.pricing.cost import lines_of, price_for_run
from runtally.pricing.match import Discount, PriceCandidate, less_discount
from runtally.pricing.queries import select_candidates_of, select_discounts, select_variants
from runtally.pricing.rates import read_variants
from runtally.runs.cost_line_queries import PricedAlike, Varying, select_priced_alike
from runtally.units import LINES, Measured
from runtally.usage import masking
from runtally.usage.dimensions import OTHER
from runtally.usage.groups.groups import read_groups, read_highest
from runtally.usage.groups.parts import parts_of
from runtally.usage.groups.queries import count_runs
from runtally.usage.groups.rows import GroupRowReader
from runtally.usage.groups.slices import SliceKey
from runtally.usage.overview.project_queries import select_dropped_before
from runtally.usage.plan import Group, LatencyDetail, Question
from runtally.usage.snapshots import Snapshot, Snapshots
from runtally.usage.totals import Totals, group_sum

MAX_RUNS_READ = 1_000_000
"""The runs that one question may read."""
MAX_ROWS = 100_000
"""The sums that one question may read: of each bucket, group and price."""
LINE = "line"
"""The name by which usage is grouped by line."""
REPORTED, CHANGED, REMOVED = "reported", "otherPrice", "removed"
NAMES = {
    **{name: unit.label for name, unit in LINES.items()},
    "request": "Fee for each request",
    "tier": "Service tier",
    "region": "Region",
    REPORTED: "Reported cost",
    CHANGED: "Priced otherwise",
    REMOVED: "Runs that are not kept",
}
"""The lines in their order, with their names for people."""
_ZERO = Decimal(0)


def measured(line: str) -> Measured | None:
    """Return what the quantity of a line counts; None for lines without one."""
    if line == "request":
        return Measured.REQUESTS
    return LINES[line].measured if line in LINES else None


@dataclass(slots=True)
class LineSum:
    """What a line came to."""

    amount_usd: Decimal = _ZERO
    quantity: int | Decimal = 0


Lines = dict[str, LineSum]
"""The sums by the names of their lines."""


@dataclass(slots=True)
class GroupLines:
    """The lines of a group of runs."""

    lines: Lines = field(default_factory=dict)
    runs: int = 0
    unpriced: int = 0
    """Runs whose cost is not known; they are in no line."""

    @property
    def cost_usd(self) -> Decimal:
        return sum((line.amount_usd for line in self.lines.values()), _ZERO)

    @property
    def sorted(self) -> list[tuple[str, LineSum]]:
        """The lines, the most expensive first, those that cost the same in their order."""
        order = list(NAMES)
        return sorted(self.lines.items(), key=lambda item: (-item[1].amount_usd, order.index(item[0])))

    def add(self, name: str, amount_usd: Decimal, quantity: int | Decimal = 0) -> None:
        line = self.lines.get(name) or self.lines.setdefault(name, LineSum())
        line.amount_usd += amount_usd
        line.quantity += quantity

    def merge(self, other: "GroupLines") -> None:
        for name, line in other.lines.items():
            self.add(name, line.amount_usd, line.quantity)
        self.runs += other.runs
        self.unpriced += other.unpriced


@dataclass(frozen=True, slots=True)
class CostLines:
    """The lines of groups over a whole time range and in each of its buckets."""

    question: Question
    groups: Mapping[Group, GroupLines]
    """The most expensive group first, all that have none of their own last."""
    slices: Mapping[SliceKey, GroupLines]

    @property
    def total(self) -> GroupLines:
        """The lines of all runs; meaningless for groups that overlap."""
        found = GroupLines()
        for group in self.groups.values():
            found.merge(group)
        return found


async def read_cost_lines(snapshots: Snapshots, control: Connection, question: Question) -> CostLines:
    """Answer which lines the costs of a question's runs consist of; its measures and its rank say nothing here.

    Raises `DimensionNotTracked` where too many runs would have to be read, or runs that are not kept.
    """
    masking.demand_open(question.filter.project_id, question.filter.dimensions)
    discounts = await select_discounts(control, question.filter.project_id)
    lacks_some = any(await snapshots.of_each(lambda connection: lacks_runs(connection, question)))
    stored = await _stored(snapshots, question) if lacks_some else {}
    question = await with_names(snapshots, question)
    rows = await read_priced_alike(snapshots, control, question, discounts)
    ids = sorted({row.entry_id for row in rows if row.entry_id is not None})
    entries = {one.price.id: one for one in await select_candidates_of(control, ids)}
    return _answer(question, rows, stored, partial(_add_lines, entries=entries, discounts=discounts))


async def with_names(snapshots: Snapshots, question: Question) -> Question:
    """Return the question with the names of the dearest groups, so that all others are read as one.

    It is left as it is where no groups are left over, and where nobody knows the dearest without reading too many runs.
    """
    readers = [GroupRowReader.of(snapshot) for snapshot in snapshots.every]
    try:
        ranked = await read_highest(readers, question)
    except DimensionNotTracked:
        return question
    return replace(question, named=ranked[: question.limit]) if len(ranked) > question.limit else question


async def read_priced_alike(
    snapshots: Snapshots, control: Connection, question: Question, discounts: Iterable[Discount]
) -> list[PricedAlike]:
    """Add up the runs of each bucket and group that one price holds for. Raises `DimensionNotTracked` where there are too many."""
    varying = _varying(await select_variants(control), discounts)
    found = await gathered(
        _rows(snapshot, question, varying, is_added=len(snapshots.every) > 1) for snapshot in snapshots.every
    )
    return [row for of_one in found for row in of_one]


async def _rows(snapshot: Snapshot, question: Question, varying: Varying, *, is_added: bool) -> list[PricedAlike]:
    """Read the sums of a database; those of closed days are in the memo."""
    reader = GroupRowReader.of(snapshot)
    # Everything that the sums do not depend on.
    asked = Question(question.timeline, question.filter, question.by, named=question.named)
    rows: list[PricedAlike] = []
    for part in await parts_of(reader, asked, is_added=is_added):
        of_part = replace(asked, timeline=part.timeline)
        rows += await part.remembered(("cost lines", of_part, varying), partial(_read, reader, of_part, varying))
    return rows


async def _read(reader: GroupRowReader, question: Question, varying: Varying) -> list[PricedAlike]:
    span = question.timeline.span
    is_little = (
        reader.days is not None and reader.days.since <= span.since and reader.days.runs_in(span) <= MAX_RUNS_READ
    )
    if not is_little and await count_runs(reader.connection, question, None, (span,), MAX_RUNS_READ) > MAX_RUNS_READ:
        raise DimensionNotTracked(
            f"More than {MAX_RUNS_READ:,} runs would have to be read for the lines of their costs: ask for a shorter time, or "
            "filter."
        )
    rows = await select_priced_alike(reader.connection, question, span, varying, MAX_ROWS)
    if rows is None:
        raise DimensionNotTracked(
            "There are too many groups in buckets for the lines of their costs: use longer buckets, or ask for a shorter time."
        )
    return rows


def _varying(variants: Mapping[int, str], discounts: Iterable[Discount]) -> Varying:
    entries = {id_: read_variants(text) for id_, text in variants.items()}
    every = [(id_, one) for id_, of_entry in entries.items() for one in of_entry]
    timed = [(id_, one) for id_, one in every if one.hours or one.weekdays]
    lengths = [(id_, one.above_input_tokens) for id_, one in every if one.above_input_tokens is not None]
    return Varying(
        tuple(sorted(entries)),
        tuple(sorted({id_ for id_, _ in timed})),
        tuple(sorted({minute for _, one in timed for window in one.hours for minute in window})),
        tuple(sorted({id_ for id_, _ in lengths})),
        tuple(sorted({length for _, length in lengths})),
        tuple(sorted({discount.project_id for discount in discounts})),
        tuple(
            sorted(
                {
                    at
                    for discount in discounts
                    for at in (discount.effective_from, discount.effective_to)
                    if at is not None
                }
            )
        ),
    )


def _add_lines(
    lines: GroupLines, row: PricedAlike, *, entries: Mapping[int, PriceCandidate], discounts: Sequence[Discount]
) -> None:
    """Add the lines of runs that are priced alike."""
    lines.runs += row.runs
    lines.unpriced += row.runs - row.priced
    if row.entry_id is None:
        if row.priced:
            lines.add(REPORTED, row.cost_usd)
        return
    entry, rest = entries.get(row.entry_id), row.cost_usd
    if entry is not None:
        price = entry.price
        if entry.project_id is None and row.project_id is not None and row.provider is not None:
            of_project = [discount for discount in discounts if discount.project_id == row.project_id]
            price = less_discount(price, of_project, row.provider, row.at)
        for line in lines_of(row.usage, price_for_run(price, row.tier, row.region, row.at, row.input_tokens)):
            # A fee is for each run; all other amounts follow from the sums.
            amount_usd = line.amount_usd * row.runs if line.name == "request" else line.amount_usd
            lines.add(line.name, amount_usd, line.quantity if line.kind else row.runs)
            rest -= amount_usd
    if rest:
        lines.add(CHANGED, rest)


async def lacks_runs(connection: Connection, question: Question) -> bool:
    """Return whether runs of a question's time are in the database no more."""
    before = await select_dropped_before(connection, question.filter.project_id)
    return before is not None and question.timeline.span.since < before


async def _stored(snapshots: Snapshots, question: Question) -> Mapping[SliceKey, Totals]:
    """Read the sums of all runs, also those that are not kept. Raises `DimensionNotTracked`."""
    if not question.is_of_models:
        raise DimensionNotTracked(
            "Some runs of this time are in the database no more, so the lines of their costs are not known: choose a later start, "
            "or group and filter by no more than provider and model, and their cost is a line of its own."
        )
    sums = replace(question, measures=("runs", "unpriced", "cost_usd"), latencies=LatencyDetail.NONE)
    answer = await read_groups([GroupRowReader.of(snapshot) for snapshot in snapshots.every], sums)
    return {place: one.totals for place, one in answer.slices.items()}


def _answer(
    question: Question,
    rows: Sequence[PricedAlike],
    stored: Mapping[SliceKey, Totals],
    add_lines: Callable[[GroupLines, PricedAlike], None],
) -> CostLines:
    """Add up the lines of each group with a high rank, and of all others as one, in each bucket."""
    shown = masking.group_mask(question.filter.project_id, question.by) or (lambda group: group)
    costs, runs = defaultdict[Group, Decimal](Decimal), Counter[Group]()
    of_rows: Iterable[tuple[Group, PricedAlike | Totals]] = ((row.group, row) for row in rows)
    sums = ((group, totals) for (_, group), totals in stored.items()) if stored else of_rows
    for group, one in ((shown(group), one) for group, one in sums):
        costs[group] += one.cost_usd
        runs[group] += one.runs
    ranked = nsmallest(
        question.limit,
        (group for group in costs if OTHER not in group),
        key=lambda group: (-costs[group], -runs[group], [one or "" for one in group]),
    )
    named = dict.fromkeys(ranked)
    rest = (OTHER,) * len(question.by)

    def place_of(number: int, group: Group) -> SliceKey:
        return number, group if (group := shown(group)) in named else rest

    slices = defaultdict[SliceKey, GroupLines](GroupLines)
    for row in rows:
        add_lines(slices[place_of(row.number, row.group)], row)
    for place, totals in group_sum((place_of(*place), totals) for place, totals in stored.items()).items():
        found = slices[place]
        if removed := totals.cost_usd - found.cost_usd:
            found.add(REMOVED, removed)
        found.runs, found.unpriced = totals.runs, totals.unpriced
    groups = defaultdict[Group, GroupLines](GroupLines)
    for (_, group), lines in slices.items():
        groups[group].merge(lines)
    return CostLines(question, {group: groups[group] for group in (*named, rest) if group in groups}, slices)
