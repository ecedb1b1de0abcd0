"""No value of a key that is hashed or dropped is left in a run, however the key is spelt."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.db.database import Database
from runtally.models.project import NameStorage
from runtally.models.run import StoredRun
from runtally.names import LiveNames, apply_rules, hash_name, spellings
from tests.documents import make_stored_run
from tests.serving import settings_for

SECRET = b"secret"
NAME = "canary-5e0b91c7"
KEYS = ("user", "session", "tags", "environment", "customer")
VALUES = st.recursive(
    st.sampled_from([NAME, f" {NAME} ", f"{NAME}@example.com"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", NAME]), inner, max_size=3),
    max_leaves=5,
)


def run_with(**fields: Any) -> StoredRun:  # noqa: ANN401  # Any field.
    return make_stored_run("p", **fields)


@given(st.sampled_from([NameStorage.HASHED, NameStorage.DROPPED]), st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_nothing_of_a_name_is_left(storage: NameStorage, sent: dict[str, Any]) -> None:
    metadata = {name: value for key, value in sent.items() for name in spellings(key)}
    run = run_with(user_id=NAME, session_id=NAME, tags=[NAME, f"{NAME}-2"], metadata=metadata | {"note": "kept"})

    apply_rules(run, dict.fromkeys(KEYS, storage), SECRET)

    stored = msgspec.json.encode([run.user_id, run.session_id, run.tags, run.metadata]).decode()
    assert NAME not in stored
    assert run.metadata is not None
    assert run.metadata["note"] == "kept"
    assert (run.user_id is None) == (storage is NameStorage.DROPPED)


def test_a_user_has_the_same_hash_in_its_field_and_in_metadata_and_in_each_run() -> None:
    runs = [run_with(user_id="ada", metadata={"user_id": " ada "}), run_with(user_id="ada", metadata={"user": "ada"})]
    for run in runs:
        apply_rules(run, {"user": NameStorage.HASHED}, SECRET)

    assert runs[0].user_id == runs[1].user_id == hash_name(SECRET, "user", "ada")
    assert runs[0].metadata == {"user_id": runs[0].user_id}
    assert runs[1].metadata == {"user": runs[0].user_id}
    assert hash_name(b"another", "user", "ada") != runs[0].user_id
    assert hash_name(SECRET, "session", "ada").removeprefix("session ") != str(runs[0].user_id).removeprefix("user ")


@pytest.mark.parametrize("storage", NameStorage)
def test_without_a_secret_what_would_be_hashed_is_dropped(storage: NameStorage) -> None:
    run = run_with(user_id="ada", tags=["ada"], metadata={"user": "ada", "tags": ["ada"]})

    apply_rules(run, {"user": storage, "tags": storage}, None)

    if storage is NameStorage.PLAIN:
        assert (run.user_id, run.tags, run.metadata) == ("ada", ["ada"], {"user": "ada", "tags": ["ada"]})
    else:
        assert (run.user_id, run.tags, run.metadata) == (None, None, {})


def test_a_secret_that_is_rotated_hashes_names_as_before_until_it_is_removed() -> None:
    url = "postgresql://nobody@localhost/none"

    def hashed(secrets: str, **more: str) -> str | None:
        return LiveNames.of(settings_for(url, secret_key=secrets, **more), Database(url)).hashed("user", "ada")

    assert hashed("old") is not None
    assert hashed("new,old") == hashed("new", names_secret="old") == hashed("old")
    assert hashed("new") != hashed("old")
