"""Which of a project's runs are looked at: those of a model, a provider, a status, an experiment. Pure."""

from dataclasses import dataclass

from runtally.models.run import Status


@dataclass(frozen=True, slots=True)
class Only:
    """What the runs must have in common; None lets any pass."""

    model: str | None = None
    provider: str | None = None
    status: Status | None = None
    experiment_id: str | None = None
    is_failed: bool = False
    """In place of a status: either way of not succeeding."""

    def __bool__(self) -> bool:
        """Whether any run might be left out."""
        return self != Only()

    @property
    def is_of_models(self) -> bool:
        """Whether sums by provider and model tell all of it."""
        return self.status is None and self.experiment_id is None and not self.is_failed

    @property
    def is_all_but_failed(self) -> bool:
        """Whether, of what sums by provider and model tell, only the few that failed are left out."""
        return self.status is Status.SUCCESS and self.experiment_id is None

    @property
    def of_models(self) -> "Only":
        """The same of any status and experiment."""
        return Only(self.model, self.provider)

    @property
    def failed(self) -> "Only":
        """Those of the same models that failed."""
        return Only(self.model, self.provider, is_failed=True)

    def has(self, provider: str, model: str) -> bool:
        """Whether this provider's model is looked at."""
        return self.model in {None, model} and self.provider in {None, provider}


EVERY_RUN = Only()
