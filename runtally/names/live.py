"""The rules for names that a process has loaded, for storing runs and for showing values."""

from collections import defaultdict
from collections.abc import Mapping
from secrets import token_bytes
from typing import Self

from runtally.db.database import Connection, Database
from runtally.errors import StoreUnavailable
from runtally.models.name_rule import NameStorage
from runtally.models.run import StoredRun
from runtally.names.rules import apply_rules, hash_name, is_hash
from runtally.settings import Settings
from runtally.usage.dimensions import USER

SELECT_RULES = """
SELECT project_id, key, storage
  FROM name_rules
"""
_NO_RULES: Mapping[str, NameStorage] = {}


async def select_rules(connection: Connection) -> dict[str, dict[str, NameStorage]]:
    """Read the rules of all projects, by project and key."""
    found: dict[str, dict[str, NameStorage]] = defaultdict(dict)
    for row in await connection.fetch(SELECT_RULES):
        found[row["project_id"]][row["key"]] = NameStorage(row["storage"])
    return dict(found)


class LiveNames:
    """The rules as they were a moment ago; one per process. Until they were read once, no run is accepted."""

    def __init__(self, database: Database, secret: str | None) -> None:
        self._database = database
        self._secret = secret.encode() if secret else None
        # What is only shown is hashed in any case; without a secret of the server, until the process ends.
        self._shown_by = self._secret or token_bytes()
        self._rules: dict[str, dict[str, NameStorage]] | None = None

    @classmethod
    def of(cls, settings: Settings, database: Database) -> Self:
        """Return the names of an installation, whose hashes NAMES_SECRET keys, or else the oldest SECRET_KEY."""
        secret = settings.names_secret or next(reversed(settings.secret_key), None)
        return cls(database, secret.get_secret_value() if secret else None)

    @property
    def can_hash(self) -> bool:
        return self._secret is not None

    async def refresh(self) -> None:
        """Read the rules. Raises `StoreUnavailable`, and then keeps those it has."""
        async with self._database.connection() as connection:
            self._rules = await select_rules(connection)

    def apply(self, run: StoredRun) -> None:
        """Hash or drop the names in a run. Raises `StoreUnavailable` where the rules are not known yet."""
        if self._rules is None:
            raise StoreUnavailable
        rules = self._rules.get(run.project_id)
        if rules:
            apply_rules(run, rules, self._secret)

    def storage(self, project_id: str, key: str) -> NameStorage:
        """Return how new runs have the values of a key; without a secret nothing is stored in place of a hash."""
        storage = (self._rules or {}).get(project_id, _NO_RULES).get(key, NameStorage.PLAIN)
        return NameStorage.DROPPED if storage is NameStorage.HASHED and not self.can_hash else storage

    def hash_of(self, project_id: str, key: str, value: str) -> str | None:
        """Return what new runs have in place of a value; None where they have the value, or nothing."""
        is_hashed = not is_hash(key, value) and self.storage(project_id, key) is NameStorage.HASHED
        return self.hashed(key, value) if is_hashed else None

    def hashed(self, key: str, value: str) -> str | None:
        """Return the hash that is stored in place of a value; None without a secret, where nothing is."""
        return hash_name(self._secret, key, value) if self._secret is not None else None

    def is_hidden(self, project_id: str | None, key: str) -> bool:
        """Return whether readers without `runs:read` see hashes of a key's values: of people's names, and of keys with a rule.

        Over all projects a rule of any of them counts.
        """
        if key == USER.name or self._rules is None:
            return True
        of_projects = self._rules.values() if project_id is None else [self._rules.get(project_id, _NO_RULES)]
        return any(key in rules for rules in of_projects)

    def shown(self, key: str, value: str) -> str:
        """Return the value as these readers see it; a value that was stored as a hash stays unchanged."""
        return value if is_hash(key, value) else hash_name(self._shown_by, key, value)
