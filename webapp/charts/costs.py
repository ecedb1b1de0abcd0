"""Charts of one cost: of a session run by run, and of a budget that is used up. Pure, except for the reader's time zone."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from runtally.budgets.use import BurnDown
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


DAY = timedelta(days=1)
COLUMNS = ("Left", "Spent", "Forecast")
LEFT, EVEN, FORECAST = KeyEntry("Left", "c1"), KeyEntry("Even spending", "even"), KeyEntry("Forecast", "forecast")


def burn_down(budget: BurnDown) -> Chart:
    """Build the chart: the rest of the budget down from the whole, its forecast, and an even spend for comparison."""
    use, month = budget.use, budget.use.month
    days = [month.start + number * DAY for number in range(month.days)]
    left, forecast = budget.left_by_day_usd, budget.forecast_by_day_usd
    today = len(left) - 1
    rows = [
        _cells(
            left[number] if number <= today else None,
            budget.spent_by_day_usd[number] if number <= today else None,
            forecast[number - today] if forecast and number >= today else None,
        )
        for number in range(month.days)
    ]
    titles = [f"{formats.bucket(day, DAY)}{', so far' if number == today else ''}" for number, day in enumerate(days)]
    heading = f"Budget burn-down, {formats.month(month.start)}"
    return Chart(
        heading=heading,
        sentence=f"{heading}. {_sentence(budget)}",
        key=(LEFT, FORECAST, EVEN) if forecast else (LEFT, EVEN),
        table=Table(("Day (UTC)", *COLUMNS), tuple((title, *row) for title, row in zip(titles, rows, strict=True))),
        spec=specs.burn_down(),
        draw=lambda: Drawing(
            (axes.days(days), axes.balance(min([*left, *forecast]), use.amount_usd)),
            _datasets(budget),
            tuple(
                Tip(title, tuple(None if cell == formats.NOTHING else cell for cell in row))
                for title, row in zip(titles, rows, strict=True)
            ),
        ),
        tip_rows=(LEFT, KeyEntry("Spent", ""), FORECAST),
    )


def _cells(*amounts: Decimal | None) -> tuple[str, ...]:
    return tuple(formats.NOTHING if amount is None else formats.money(amount) for amount in amounts)


def _datasets(budget: BurnDown) -> dict[str, specs.Rows]:
    """Return the points: the rest at the end of each day, and of today now."""
    use, left = budget.use, budget.left_by_day_usd
    ends = [*range(1, len(left)), (use.now - use.month.start) / DAY]
    forecast_ends = range(len(left), use.month.days + 1)
    ahead = zip(forecast_ends, budget.forecast_by_day_usd, strict=False)
    past = [_point(0, use.amount_usd), *(_point(x, amount) for x, amount in zip(ends, left, strict=True))]
    return {
        "left": past,
        "now": past[-1:],
        "forecast": [past[-1], *(_point(x, amount) for x, amount in ahead)],
        "even": [_point(0, use.amount_usd), _point(use.month.days, Decimal(0))],
        "nothing": [{"y": 0}],
        "buckets": [{"i": number} for number in range(use.month.days)],
    }


def _point(x: float, amount_usd: Decimal) -> dict[str, object]:
    return {"x": float(f"{x:.6g}"), "y": float(f"{amount_usd:.6g}")}


def _sentence(budget: BurnDown) -> str:
    use = budget.use
    text = f"{formats.money(use.spent_usd)} of {formats.set_money(use.amount_usd)} spent"
    text += f", {formats.money(use.left_usd)} left" if use.left_usd >= 0 else f", {formats.money(-use.left_usd)} over"
    if use.forecast_usd is not None:
        text += f"; {formats.rough_money(use.forecast_usd)} at the end of the month at the pace of the last 7 days"
    return f"{text}."
