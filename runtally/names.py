"""Rules for people's names: hash or drop the values of chosen keys in a run before anything of it is stored.

People set the rules of a project, and each process has loaded those of all.
"""

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from secrets import token_bytes
from typing import Any, Self

import msgspec
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.db.database import Database
from runtally.errors import NO_PROJECT, Detail, InvalidNameRule, NotFound, StoreUnavailable
from runtally.fields import trimmed
from runtally.models.project import NameRule, NameStorage, Project
from runtally.models.run import StoredRun
from runtally.settings import Settings
from runtally.usage.dimensions import MAX_KEY_LENGTH, SAME_KEYS, SESSION, TAGS, USER, canonical_key, is_key

HASH_DIGITS = 16
_COLUMNS = {USER.name: "user_id", SESSION.name: "session_id"}


def hash_name(secret: bytes, key: str, value: str) -> str:
    """Return the hash of a value: `user 7f3a9c2e51d04b66`, the same for each run and each project of a server."""
    digest = hmac.digest(secret, f"{key}\0{value}".encode(), hashlib.sha256)
    return f"{key} {digest.hex()[:HASH_DIGITS]}"


def is_hash(key: str, value: str) -> bool:
    """Return whether the value is what `hash_name` makes of one."""
    start, _, digits = value.rpartition(" ")
    return start == key and len(digits) == HASH_DIGITS and set(digits) <= set("0123456789abcdef")


def spellings(key: str) -> tuple[str, ...]:
    """Return the keys of metadata that are read as this one."""
    return (key, *(other for other, same in SAME_KEYS.items() if same == key))


def apply_rules(run: StoredRun, rules: Mapping[str, NameStorage], secret: bytes | None) -> None:
    """Hash or drop the values that the rules name, in the run's fields and in its metadata.

    Without a secret they are dropped: a hash that anybody can compute hides nothing.
    """
    for key, storage in rules.items():
        if storage is NameStorage.PLAIN:
            continue
        hashing = secret if storage is NameStorage.HASHED else None
        if key in _COLUMNS:
            value = getattr(run, _COLUMNS[key])
            setattr(run, _COLUMNS[key], None if value is None or hashing is None else hash_name(hashing, key, value))
        if key == TAGS.name and run.tags:
            run.tags = (
                None if hashing is None else list(dict.fromkeys(hash_name(hashing, key, tag) for tag in run.tags))
            )
        if run.metadata:
            run.metadata = _without_names(run.metadata, key, hashing)


def _without_names(metadata: Mapping[str, Any], key: str, secret: bytes | None) -> dict[str, Any]:
    names = set(spellings(key))
    kept = {}
    for name, value in metadata.items():
        if canonical_key(name) != key and name not in names:
            kept[name] = value
        elif secret is not None and value is not None:
            kept[name] = _hashed(secret, key, value)
    return kept


def _hashed(secret: bytes, key: str, value: Any) -> Any:  # noqa: ANN401  # Metadata is any JSON value.
    if key == TAGS.name and isinstance(value, list):
        return [_hashed(secret, key, item) for item in value]
    # Ingest reads text without the blanks around it. Anything else is hashed as its JSON, so that nothing of it is left.
    text = trimmed(value) if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    return hash_name(secret, key, text)


SELECT_RULES = """
SELECT project_id, key, storage
  FROM name_rules
"""
_NO_RULES: Mapping[str, NameStorage] = {}


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
        rules: dict[str, dict[str, NameStorage]] = defaultdict(dict)
        async with self._database.connection() as connection:
            for row in await connection.fetch(SELECT_RULES):
                rules[row["project_id"]][row["key"]] = NameStorage(row["storage"])
        self._rules = dict(rules)

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


MAX_RULES = 20


async def list_rules(session: AsyncSession, project_id: str) -> Sequence[NameRule]:
    """List the rules of a project, by key."""
    query = select(NameRule).where(NameRule.project_id == project_id)
    return (await session.exec(query.order_by(col(NameRule.key)))).all()


async def set_rule(  # noqa: PLR0913, PLR0917  # What is set, by whom and when.
    session: AsyncSession, by: Actor, project_id: str, key: str, storage: str, now: datetime, *, can_hash: bool
) -> None:
    """Store the values of a key in this form from now on; stored runs stay unchanged.

    Raises `InvalidNameRule` with every field that is wrong, and `NotFound`.
    """
    key, wrong = canonical_key(key), list[Detail]()
    if not is_key(key):
        wrong.append(Detail("key", f"Name a key of metadata with 1 to {MAX_KEY_LENGTH} characters, such as user."))
    if storage not in set(NameStorage):
        wrong.append(Detail("storage", "Choose hashed, dropped or plain."))
    if storage == NameStorage.HASHED and not can_hash:
        wrong.append(Detail("storage", "This server cannot hash: its operator has to set NAMES_SECRET or SECRET_KEY."))
    if wrong:
        raise InvalidNameRule(details=tuple(wrong))
    if await session.get(Project, project_id, with_for_update=True) is None:
        raise NotFound(NO_PROJECT)
    rules = {rule.key: rule for rule in await list_rules(session, project_id)}
    if key not in rules and len(rules) >= MAX_RULES:
        raise InvalidNameRule(f"There are {MAX_RULES} keys already; remove one first.")
    rule = rules.get(key)
    before = {"storage": rule.storage} if rule else {}
    rule = rule or NameRule(project_id=project_id, key=key, storage=storage, updated_at=now)
    rule.storage, rule.updated_at = storage, now
    session.add(rule)
    if before.get("storage") != storage:
        record(session, by, Change("names.set", key, project_id, before, {"storage": storage}))


async def remove_rule(session: AsyncSession, by: Actor, project_id: str, key: str) -> None:
    """Remove the rule of a key, so that its values are stored as they are sent. Without a rule nothing happens."""
    rule = await session.get(NameRule, (project_id, canonical_key(key)), with_for_update=True)
    if rule is not None:
        await session.delete(rule)
        record(session, by, Change("names.removed", rule.key, project_id, {"storage": rule.storage}))
