"""Read user, session, tags and timing from metadata, where SDKs write them. Pure.

Metadata is free-form: a value that the field cannot hold is ignored, without an error.
"""

from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from runtally.fields import MAX_COUNT, MAX_LABEL, MAX_NAME, MAX_TAGS, trimmed
from runtally.models.run import StoredRun

_USER = ("user", "userId", "user_id")
_SESSION = ("session", "sessionId", "session_id")


def fill_from_labels(run: StoredRun, metadata: Mapping[str, Any]) -> None:
    """Fill the run's empty fields from its metadata."""
    if run.user_id is None:
        run.user_id = _id(metadata, _USER)
    if run.session_id is None:
        run.session_id = _id(metadata, _SESSION)
    if run.tags is None and "tags" in metadata:
        run.tags = _tags(metadata["tags"])
    if run.finish_reason is None and "finishReason" in metadata:
        run.finish_reason = _label(metadata["finishReason"])
    if run.time_to_first_token_ms is None and "timeToFirstTokenMs" in metadata:
        run.time_to_first_token_ms = _milliseconds(metadata["timeToFirstTokenMs"])


def distinct_tags(tags: Iterable[str]) -> list[str] | None:
    """Return each tag once, without surrounding blanks; None when none is left."""
    return list(dict.fromkeys(tag for text in tags if (tag := text.strip()))) or None


def _id(metadata: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """Return the first of the names that holds an id, which may be a number."""
    for name in names:
        value = metadata.get(name)
        if value is None:
            continue
        if type(value) is int:
            value = str(value)
        if isinstance(value, str) and (value := trimmed(value)) and len(value) <= MAX_NAME:
            return value
    return None


def _tags(value: object) -> list[str] | None:
    if not isinstance(value, list) or len(value) > MAX_TAGS:
        return None
    if not all(isinstance(tag, str) and len(tag) <= MAX_LABEL for tag in value):
        return None
    return distinct_tags(value)


def _label(value: object) -> str | None:
    return value if isinstance(value, str) and value and len(value) <= MAX_LABEL else None


def _milliseconds(value: object) -> int | None:
    """Round a number of milliseconds, which clocks give with a fraction."""
    if not isinstance(value, int | Decimal) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
        return None
    return int(Decimal(value).quantize(Decimal(1), ROUND_HALF_UP))
