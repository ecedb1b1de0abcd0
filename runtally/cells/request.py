"""The cells that the request at hand is about: one that it names or whose project it is about, or all."""

from contextvars import ContextVar
from dataclasses import dataclass, field

from runtally.errors import StoreUnavailable


@dataclass(frozen=True, slots=True)
class AskedCells:
    """The cells of a request, where there are several."""

    named: str | None = None
    """The cell that it names: what it asks of all projects is about those of this one."""
    of_project: str | None = None
    """The cell of its project."""
    missing: set[str] = field(default_factory=set)
    """Cells that were away when they were asked, and so are not in the answer."""


_asked: ContextVar[AskedCells] = ContextVar("cells", default=AskedCells())  # noqa: B039  # Nothing is noted in that one.


def use(asked: AskedCells) -> None:
    """Ask these cells for the rest of this request."""
    _asked.set(asked)


def asked() -> AskedCells:
    return _asked.get()


def missing() -> tuple[str, ...]:
    """Return the cells that are not in the answer because they are away."""
    return tuple(sorted(_asked.get().missing))


def demand_all() -> None:
    """Raise `StoreUnavailable` if a cell was away, for an answer that cannot say that it is missing, such as a file."""
    for name in missing():
        error = StoreUnavailable(f"Cell {name}: {StoreUnavailable.message}")
        error.cell = name
        raise error
