"""Hide people's names from readers who may not see them: answers have hashes, and filters by a name are refused.

The mask of a request is set once it is known who asks; jobs and commands of the server use `ALL_NAMES`. Without a mask nothing
about a dimension is answered, so that a door that forgets it shows no names.
"""

from collections.abc import Callable, Collection, Iterable
from contextvars import ContextVar
from typing import Protocol

from runtally.errors import Forbidden
from runtally.usage.dimensions import METADATA, NO_VALUE, OTHER, Dimension

HIDDEN = "Names of people are hidden from your role: filter by something else, or ask an admin for another role."


class Mask(Protocol):
    """The mask through which a reader sees names."""

    def is_hidden(self, project_id: str | None, key: str) -> bool: ...

    def shown(self, key: str, value: str) -> str: ...


class AllNames:
    """The mask of those who may see every name: jobs, and commands of the server."""

    def is_hidden(self, project_id: str | None, key: str) -> bool:  # noqa: ARG002  # Of a `Mask`.
        return False

    def shown(self, key: str, value: str) -> str:  # noqa: ARG002  # Of a `Mask`.
        return value


ALL_NAMES = AllNames()

_mask: ContextVar[Mask] = ContextVar("mask")


def use(mask: Mask) -> None:
    """Show names through this mask for the rest of this request, job or command."""
    _mask.set(mask)


def _is_hidden(project_id: str | None, dimension: str) -> bool:
    """Return whether the reader may not see values of a dimension; without a mask raise `LookupError`."""
    return _mask.get().is_hidden(project_id, dimension.removeprefix(METADATA))


def shown_name(project_id: str | None, dimension: str, value: str) -> str:
    """Return a value as the reader of this request may see it."""
    if value and _is_hidden(project_id, dimension):
        return _mask.get().shown(dimension.removeprefix(METADATA), value)
    return value


def demand_open(project_id: str | None, dimensions: Iterable[Dimension]) -> None:
    """Raise `Forbidden` if a filter selects a value that the reader may not see: its answer would confirm a guess."""
    if any(_is_hidden(project_id, dimension.name) for dimension in dimensions):
        raise Forbidden(HIDDEN)


def hidden_places(project_id: str | None, by: Collection[Dimension]) -> tuple[int, ...]:
    """Return the places in a group whose values the reader may not see."""
    return tuple(place for place, dimension in enumerate(by) if _is_hidden(project_id, dimension.name))


def group_mask(
    project_id: str | None, by: Collection[Dimension]
) -> Callable[[tuple[str | None, ...]], tuple[str | None, ...]] | None:
    """Return what puts hashes in place of the values of a group that the reader may not see; None where that is none."""
    if not (places := hidden_places(project_id, by)):
        return None
    return lambda group: tuple(
        shown_name(project_id, dimension.name, value)
        if place in places and value is not None and value not in {OTHER, NO_VALUE}
        else value
        for place, (dimension, value) in enumerate(zip(by, group, strict=True))
    )
