"""Charts of experiments: a checked figure by day with its limit, and two estimates side by side. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from math import isfinite

from msgspec import Struct

from runtally.experiments.estimate import Estimate
from runtally.experiments.verdict import Measure
from webapp import formats, threshold_text
from webapp.charts import axes, specs
from webapp.charts.axes import Ticks
from webapp.charts.chart import Chart, KeyEntry
from webapp.charts.drawing import Drawing, Series, Table, Tip, line_rows

SLOTS = {
    Measure.ERROR_RATE: "bad",
    Measure.P95_LATENCY_MS: "accent",
    Measure.COST_PER_RUN_USD: "c1",
    Measure.TOTAL_COST_USD: "c1",
}
DAY = "Day (UTC)"
# Of two experiments, the first and the second.
ARM_SLOTS = ("c1", "c3")


class Day(Struct, frozen=True):
    """A day of an experiment: the figure at its end, the number of runs, and the verdict."""

    start: datetime
    value: Decimal | None
    runs: int
    outcome: str


def history(measure: Measure, days: Sequence[Day], limit: Decimal | None) -> Chart:
    """A figure over the experiment's window, at the end of each day, and its limit if it has one."""
    name = threshold_text.NAMES[measure]
    says = "" if limit is None else f"Limit {threshold_text.limit_text(measure, limit)}"
    titles = [formats.bucket(day.start, timedelta(days=1)) for day in days]
    titles[-1] += ", so far"
    shown = [formats.NOTHING if day.value is None else threshold_text.text(measure, day.value) for day in days]
    known = [day.value for day in days if day.value is not None]
    against = "" if limit is None else f" {says}; over it on {sum(value > limit for value in known)}."
    limits = [] if limit is None else [limit]
    columns = {name: shown, "Runs": [formats.count(day.runs) for day in days], "Verdict": [day.outcome for day in days]}
    rows = tuple(zip(*columns.values(), strict=True))
    return Chart(
        heading=name,
        sentence=f"{name} at the end of each of {len(days)} days.{against} Now: {shown[-1]}.",
        key=(),
        has_previous=limit is not None,
        previous_name=says,
        table=Table((DAY, *columns), tuple((title, *row) for title, row in zip(titles, rows, strict=True))),
        spec=specs.line(SLOTS[measure], has_limit=limit is not None),
        draw=lambda: Drawing(
            (
                axes.days([day.start for day in days]),
                _value_ticks(measure, max([*known, *limits], default=Decimal(0))),
            ),
            {
                **line_rows(Series(name, SLOTS[measure], tuple(day.value for day in days))),
                **({"limit": [{"y": float(one)} for one in limits]} if limits else {}),
            },
            tuple(Tip(title, row) for title, row in zip(titles, rows, strict=True)),
        ),
        tip_rows=tuple(KeyEntry(column, SLOTS[measure] if column == name else "") for column in columns),
    )


def intervals(measure: Measure, arms: Sequence[tuple[str, Estimate | None]]) -> Chart:
    """The first estimate above the second, each with the interval that holds the true figure in 95 of 100 cases."""
    name = threshold_text.NAMES[measure]
    # What has no upper end is drawn to the edge.
    ends = [one.high if isfinite(one.high) else one.value * 1.5 for _, one in arms if one is not None]
    across = _value_ticks(measure, Decimal(str(max(ends, default=0.0))))
    rows = [
        {
            "i": len(arms) - 1 - number,
            "x": one.value,
            "a": one.low,
            "b": min(one.high, across.values[-1]),
            "slot": ARM_SLOTS[number],
        }
        for number, (_, one) in enumerate(arms)
        if one is not None
    ]
    middles = (*(number + 0.5 for number in range(len(arms))), float(len(arms)))
    cells = [(arm, *_cells(measure, one)) for arm, one in arms]
    said = "; ".join(f"{arm}: {value}, between {low} and {high}" for arm, value, low, high in cells)
    return Chart(
        heading=name,
        sentence=f"{name}, with 95% confidence. {said}.",
        key=(),
        table=Table(("Experiment", name, "At least", "At most"), tuple(cells)),
        spec=specs.intervals(),
        draw=lambda: Drawing(
            (across, Ticks(middles, (*(arm for arm, _ in reversed(arms)), ""))), {"rows": rows}, tips=()
        ),
        tip_rows=(),
    )


def _cells(measure: Measure, one: Estimate | None) -> tuple[str, str, str]:
    if one is None:
        return formats.NOTHING, formats.NOTHING, formats.NOTHING
    value, low, high = (
        threshold_text.text(measure, Decimal(str(end))) if isfinite(end) else "not known"
        for end in (one.value, one.low, one.high)
    )
    return value, low, high


def _value_ticks(measure: Measure, highest: Decimal) -> Ticks:
    match measure:
        case Measure.ERROR_RATE:
            return axes.percent(float(highest))
        case Measure.P95_LATENCY_MS:
            return axes.duration(float(highest))
        case Measure.COST_PER_RUN_USD | Measure.TOTAL_COST_USD:
            return axes.money(highest)
