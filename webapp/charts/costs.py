"""Charts of one cost: of a session run by run, and of a budget that is used up. Pure, except for the reader's time zone."""

from collections.abc import Sequence

from runtally.runs.session import Point
from webapp import formats
from webapp.charts import axes, specs
from webapp.charts.axes import Ticks
from webapp.charts.chart import Chart, KeyEntry
from webapp.charts.drawing import Drawing, Series, Table, Tip, line_rows
from webapp.zone import local

SO_FAR_SLOT = "c1"
_SO_FAR = "Cost so far"
_MAX_TICKS = 8
_ROUND = (1, 2, 5)


def cost_so_far(points: Sequence[Point]) -> Chart:
    """Return a line of the cumulative cost of a session's runs; there must be at least one."""
    series = Series(_SO_FAR, SO_FAR_SLOT, tuple(point.total_usd for point in points))
    last = points[-1]
    costs = [formats.money(point.total_usd) for point in points]
    times = [formats.moment(local(point.at)) for point in points]
    names = [f"Run {formats.count(point.number)}" for point in points]
    return Chart(
        heading=f"{_SO_FAR}, run by run",
        sentence=f"{_SO_FAR}, run by run: {costs[-1]} after {formats.count(last.number)} runs.",
        key=(),
        table=Table(("Run", "Time", _SO_FAR), tuple(zip(names, times, costs, strict=True))),
        spec=specs.line(SO_FAR_SLOT),
        draw=lambda: Drawing(
            (_ticks(points), axes.money(last.total_usd)),
            # No run is still open.
            line_rows(series, is_over=True),
            tuple(Tip(name, (time, cost)) for name, time, cost in zip(names, times, costs, strict=True)),
        ),
        tip_rows=(KeyEntry("Time", ""), KeyEntry(_SO_FAR, SO_FAR_SLOT)),
    )


def _ticks(points: Sequence[Point]) -> Ticks:
    """Round numbers of runs, below the points that come nearest to them, and the first."""
    steps = points[-1].number
    width = next(
        factor * 10**power
        for power in range(len(str(steps)) + 1)
        for factor in _ROUND
        if factor * 10**power * _MAX_TICKS >= steps
    )
    places: dict[int, str] = {0: formats.count(points[0].number)}
    for number in range(width, steps + 1, width):
        place = min(range(len(points)), key=lambda at: abs(points[at].number - number))
        places.setdefault(place, formats.count(points[place].number))
    return Ticks(tuple(place + 0.5 for place in places), tuple(places.values()))
