"""The colours of the values that a chart shows."""

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from api.current import services
from runtally.usage.dimensions import BY_MODEL, STATUS, Dimension
from webapp.charts.colours import slots_of
from webapp.charts.series import STATUS_SLOTS


async def read_slots(dimension: Dimension, values: Sequence[str]) -> Mapping[str, str]:
    """Return the colours of these values of a dimension, the most important first, as they have them everywhere."""
    if dimension == STATUS:
        return {status.value: slot for status, slot in STATUS_SLOTS.items() if status.value in values}
    stored = {value: _stored(dimension, value) for value in values}
    numbers = await services().colours.of(dimension.name, list(stored.values()))
    return slots_of(values, {value: numbers[name] for value, name in stored.items()})


def _stored(dimension: Dimension, value: str) -> str:
    """Return the name under which a colour is stored; users and customers are hashed, and go when any project is erased."""
    return value if dimension in BY_MODEL else blake2b(value.encode(), digest_size=12).hexdigest()
