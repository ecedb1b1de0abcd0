"""Hash or drop the values of chosen keys in a run, before anything of it is stored. Pure."""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import msgspec

from runtally.fields import trimmed
from runtally.models.name_rule import NameStorage
from runtally.models.run import StoredRun
from runtally.usage.dimensions import SAME_KEYS, SESSION, TAGS, USER, canonical_key

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
        return [_hashed(secret, key, one) for one in value]
    # As ingest reads it: text without blanks around it. Of anything else its JSON, so that nothing of it is left.
    text = trimmed(value) if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    return hash_name(secret, key, text)
