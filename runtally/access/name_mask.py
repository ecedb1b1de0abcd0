"""The mask that replaces people's names by hashes for readers who may not see them."""

from dataclasses import dataclass

from runtally.access.scopes import Scope, may
from runtally.audit import Actor
from runtally.names import LiveNames


@dataclass(frozen=True, slots=True)
class NameMask:
    """The mask of a request: a reader without `runs:read` for a project sees hashes in place of names."""

    names: LiveNames
    actor: Actor

    def is_hidden(self, project_id: str | None, key: str) -> bool:
        return not may(self.actor, Scope.RUNS_READ, project_id) and self.names.is_hidden(project_id, key)

    def shown(self, key: str, value: str) -> str:
        return self.names.shown(key, value)
