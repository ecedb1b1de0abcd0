"""Which of a project's runs are looked at: those of a model, a provider, a status, an experiment. Pure."""

from dataclasses import dataclass

from runtally.metrics.values import Cell
from runtally.models.run import Status


@dataclass(frozen=True, slots=True)
class Only:
    """What the runs must have in common; None lets any pass."""

    model: str | None = None
    provider: str | None = None
    status: Status | None = None
    experiment_id: str | None = None

    def __bool__(self) -> bool:
        """Whether any run might be left out."""
        return self != Only()

    @property
    def is_of_models(self) -> bool:
        """Whether sums by provider and model tell all of it."""
        return self.status is None and self.experiment_id is None

    def has(self, cell: Cell) -> bool:
        """Whether the cell's provider and model are looked at."""
        return self.model in {None, cell.model} and self.provider in {None, cell.provider}


EVERY_RUN = Only()
