"""The dimensions that runs can be grouped and filtered by, one row each; keys of metadata are dimensions too."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runtally.models.dimension import MAX_VALUE_LENGTH

METADATA = "metadata."
"""The start of the name of a dimension that is a key of metadata."""
MAX_KEY_LENGTH = 128
"""Characters of a key of metadata that can be asked for."""
OTHER = "\0other"
"""In place of a value: all values that have no group of their own. No value that is stored holds a NUL."""
OTHER_NAME = "(other)"
"""The text of `OTHER` in an answer."""
COUNTED_PROVIDER, COUNTED_MODEL = (
    f"CASE WHEN counted_as_other THEN '{OTHER_NAME}' ELSE {name} END" for name in ("provider", "model")
)
"""SQL of the provider and the model under which a run counts, over the columns of runs."""
NO_VALUE = "\0none"
"""In place of a value: the runs that have none."""
# Other spellings of keys that each project tracks by default; ingest reads users and sessions from all of these.
SAME_KEYS = {
    "env": "environment",
    "userId": "user",
    "user_id": "user",
    "sessionId": "session",
    "session_id": "session",
}
_SPELLINGS = {"environment": ("environment", "env")}


@dataclass(frozen=True, slots=True)
class Dimension:
    """A property of runs by which they can be grouped and filtered."""

    name: str
    """The name in queries."""
    sql: str
    """Its value, over the columns of runs; empty for a key of metadata."""
    filter_field: str
    """The field of `RunFilter` that keeps the runs of one value."""
    is_in_slices: bool = False
    """Whether stored slices tell it apart."""
    is_in_totals: bool = False
    """Whether stored totals do too."""
    tracked_as: str | None = None
    """The key whose sums tell it apart in the projects that track this key."""
    metadata_keys: tuple[str, ...] = ()
    """The keys of metadata that it is read from, the first that a run has."""
    unusual: str | None = None
    """A condition on runs that an index answers: all others have the `usual` value."""
    usual: str | None = None
    is_list: bool = False
    """Whether a run has several values, and is in the group of each."""

    @property
    def slice_column(self) -> str:
        """The column of stored slices that tells it apart."""
        return self.filter_field

    def value_sql(self, placeholder: Callable[[str], str]) -> str:
        """SQL of the dimension's value over the columns of runs, NULL for runs without one."""
        if not self.metadata_keys:
            return self.sql
        texts = ", ".join(f"metadata ->> {placeholder(key)}" for key in self.metadata_keys)
        return f"nullif(left(coalesce({texts}), {MAX_VALUE_LENGTH}), '')"


PROJECT = Dimension("project", "project_id", "project_id", is_in_slices=True, is_in_totals=True)
PROVIDER = Dimension("provider", COUNTED_PROVIDER, "provider", is_in_slices=True)
MODEL = Dimension("model", COUNTED_MODEL, "model", is_in_slices=True)
STATUS = Dimension("status", "status", "status", unusual="status <> 'success'", usual="success")
ERROR_CODE = Dimension("errorCode", "nullif(error_code, '')", "error_code")
EXPERIMENT = Dimension("experiment", "experiment_id", "experiment_id", unusual="experiment_id IS NOT NULL")
KEY = Dimension("key", "key_id::text", "key_id")
SERVICE_TIER = Dimension("serviceTier", "service_tier", "service_tier")
REGION = Dimension("region", "region", "region")
TRACE = Dimension("trace", "trace_id", "trace_id", unusual="trace_id IS NOT NULL")
SESSION = Dimension("session", "nullif(session_id, '')", "session_id", tracked_as="session")
USER = Dimension("user", "nullif(user_id, '')", "user_id", tracked_as="user")
TAGS = Dimension("tags", "tags", "tag", tracked_as="tags", is_list=True)

BY_MODEL = (PROVIDER, MODEL)
OF_OUTCOME = frozenset({STATUS.filter_field, ERROR_CODE.filter_field})
"""The fields of what a run came to: where one of them is known, all of the runs failed, or none."""
DIMENSIONS: Mapping[str, Dimension] = {
    one.name: one
    for one in (
        PROVIDER,
        MODEL,
        STATUS,
        ERROR_CODE,
        EXPERIMENT,
        KEY,
        SERVICE_TIER,
        REGION,
        TRACE,
        SESSION,
        USER,
        TAGS,
    )
}
"""The dimensions that answers can be grouped by, by name; each key of metadata is one too."""
_OF_KEYS = {dimension.tracked_as: dimension for dimension in DIMENSIONS.values() if dimension.tracked_as}


def canonical_key(key: str) -> str:
    """Return the name of the dimension that a metadata key stands for."""
    key = key.strip()
    return SAME_KEYS.get(key, key)


def dimension_of_key(key: str) -> Dimension:
    """Return the dimension of a key that a project may track."""
    key = canonical_key(key)
    if key in _OF_KEYS:
        return _OF_KEYS[key]
    return Dimension(METADATA + key, "", "metadata", tracked_as=key, metadata_keys=_SPELLINGS.get(key, (key,)))


def dimension_named(name: str) -> Dimension | None:
    """Return the dimension with this name; None if there is none."""
    key = name.removeprefix(METADATA)
    if key == name:
        return DIMENSIONS.get(name)
    return dimension_of_key(key) if is_key(key) else None


def is_key(key: str) -> bool:
    """Return whether a metadata key may be used in a query."""
    return 0 < len(key.strip()) <= MAX_KEY_LENGTH and "\0" not in key
