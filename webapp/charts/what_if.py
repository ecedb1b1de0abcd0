"""The chart that compares the daily cost with the cost under other prices or models. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from msgspec import Struct

from webapp import formats
from webapp.charts import axes, specs
from webapp.charts.chart import Chart, KeyEntry
from webapp.charts.colours import OTHER
from webapp.charts.drawing import Drawing, Series, Sums

WAS, WOULD = "Cost", "Would have cost"


class SupposedDay(Struct, frozen=True):
    """A day, its cost, and its cost under the supposed prices."""

    start: datetime
    cost_usd: Decimal
    would_cost_usd: Decimal


def what_if_by_day(days: Sequence[SupposedDay]) -> Chart:
    """Bars of what was, with a dash over each for what would have been; the first day and the last are not whole."""
    titles = [formats.bucket(day.start, timedelta(days=1)) for day in days]
    titles[-1] += ", so far"
    costs = tuple(day.cost_usd for day in days)
    sums = Sums(
        titles=tuple(titles),
        stack=(Series(WAS, OTHER, costs),),
        totals=costs,
        before=tuple(day.would_cost_usd for day in days),
        before_name=WOULD,
        text=formats.money,
    )
    was, would = (formats.money(sum(amounts, Decimal(0))) for amounts in (sums.totals, sums.before))
    return Chart(
        heading="Cost by day",
        sentence=f"Cost by day of the last 30 days: {was} in total; it would have been {would}.",
        key=(KeyEntry(WAS, OTHER),),
        has_previous=True,
        previous_name=WOULD,
        table=sums.table(),
        spec=specs.bars(),
        draw=lambda: Drawing(
            (axes.days([day.start for day in days]), axes.money(max([*sums.totals, *sums.before]))),
            sums.rows(),
            sums.tips(),
        ),
        tip_rows=(KeyEntry(WAS, OTHER),),
    )
