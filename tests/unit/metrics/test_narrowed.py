"""What some of a project's runs came to does not depend on the order in which it was read."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import permutations

from runtally.metrics.narrowed import Narrowed
from runtally.metrics.values import Cell, Tally
from runtally.metrics.window import Range, Window

HOUR = timedelta(hours=1)


def test_bars_are_the_same_in_whatever_order_cells_come() -> None:
    window = Window.of(Range.WEEK, datetime(2026, 11, 21, 9, 30, tzinfo=UTC))
    cells = [
        Cell(window.start + number * HOUR, provider, "large", Tally(runs=1, cost_usd=Decimal(number)))
        for number in (1, 8)
        for provider in ("acme", "bolt")
    ]

    found = [Narrowed.of(window, 6 * HOUR, order, {}).in_bars(window, 6 * HOUR) for order in permutations(cells)]

    assert all(one == found[0] for one in found)
    assert [(cost.number, cost.provider) for cost in found[0].costs] == [
        (0, "acme"),
        (0, "bolt"),
        (1, "acme"),
        (1, "bolt"),
    ]
