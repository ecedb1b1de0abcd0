"""The colours of what a cost chart shows."""

from collections.abc import Mapping
from typing import TypeAlias

from api.current import services
from runtally.usage.summary import Summary
from webapp.charts import series
from webapp.charts.colours import slots_of
from webapp.charts.series import STATUS_SLOTS, Split

Slots: TypeAlias = Mapping[str, str]
"""By name."""


async def read_slots(summary: Summary, by: Split) -> Slots:
    """Return the colours of the names that a chart of this summary shows, as they have them everywhere."""
    if by is Split.STATUS:
        return {status.value: slot for status, slot in STATUS_SLOTS.items()}
    names = series.charted(summary, by)
    return slots_of(names, await services().colours.of(by.value, names))
