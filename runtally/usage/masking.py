"""Hide people's names from readers who may not see them: answers have hashes, and filters by a name are refused.

The mask of a request is set once it is known who asks. Jobs and commands of the server have none.
"""

from collections.abc import Collection, Iterable
from contextvars import ContextVar
from typing import Protocol

from runtally.errors import Forbidden
from runtally.usage.dimensions import METADATA, NO_VALUE, OTHER, Dimension

HIDDEN = "Names of people are hidden from your role: filter by something else, or ask an admin for another role."


class Mask(Protocol):
    """The mask through which a reader sees names."""

    def is_hidden(self, project_id: str | None, key: str) -> bool: ...

    def shown(self, key: str, value: str) -> str: ...


_mask: ContextVar[Mask | None] = ContextVar("mask", default=None)


def use(mask: Mask | None) -> None:
    """Show names through this mask for the rest of this request."""
    _mask.set(mask)


def shown_name(project_id: str | None, dimension: str, value: str) -> str:
    """Return a value as the reader of this request may see it."""
    mask, key = _mask.get(), dimension.removeprefix(METADATA)
    return mask.shown(key, value) if mask and value and mask.is_hidden(project_id, key) else value


def demand_open(project_id: str | None, dimensions: Iterable[Dimension]) -> None:
    """Raise `Forbidden` if a filter selects a value that the reader may not see: its answer would confirm a guess."""
    mask = _mask.get()
    if mask and any(mask.is_hidden(project_id, _key(one)) for one in dimensions):
        raise Forbidden(HIDDEN)


def hidden_places(project_id: str | None, by: Collection[Dimension]) -> tuple[int, ...]:
    """Return the places in a group whose values the reader may not see."""
    mask = _mask.get()
    if mask is None:
        return ()
    return tuple(place for place, one in enumerate(by) if mask.is_hidden(project_id, _key(one)))


def mask_group(
    project_id: str | None, by: Collection[Dimension], places: Collection[int], group: tuple[str | None, ...]
) -> tuple[str | None, ...]:
    """Return a group with hashes in these places."""
    return tuple(
        shown_name(project_id, one.name, value)
        if place in places and value is not None and value not in {OTHER, NO_VALUE}
        else value
        for place, (one, value) in enumerate(zip(by, group, strict=True))
    )


def _key(dimension: Dimension) -> str:
    return dimension.name.removeprefix(METADATA)
