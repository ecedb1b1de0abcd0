"""Which runs are looked at: read from a query string, and written back into one. Pure; its SQL is `conditions`'."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Self

from runtally.errors import Detail, InvalidFilter
from runtally.fields import MAX_COUNT, MAX_NAME
from runtally.metrics.window import Range, Window
from runtally.models.run import Status
from runtally.money import MAX_USD, plain

NAMES = {
    "project_id": "project",
    "provider": "provider",
    "model": "model",
    "status": "status",
    "experiment_id": "experiment",
    "trace_id": "trace",
    "search": "q",
    "min_cost_usd": "minCost",
    "max_cost_usd": "maxCost",
    "min_latency_ms": "minLatency",
    "max_latency_ms": "maxLatency",
    "metadata_key": "metadataKey",
    "metadata_value": "metadataValue",
    "range": "range",
    "since": "since",
    "until": "until",
}
"""The query parameter of each field."""


class Outcome(StrEnum):
    """How the runs ended; `failed` is either way of not succeeding."""

    SUCCESS = Status.SUCCESS.value
    FAILED = "failed"
    ERROR = Status.ERROR.value
    TIMEOUT = Status.TIMEOUT.value


class Period(StrEnum):
    """How far back: the ranges of the reports, which begin where theirs do, or all there is."""

    DAY = Range.DAY.value
    WEEK = Range.WEEK.value
    MONTH = Range.MONTH.value
    ALL = "all"

    def start(self, now: datetime) -> datetime | None:
        return None if self is Period.ALL else Window.of(Range(self.value), now).start


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """What runs must have in common; None lets any pass. `since` and `until` (exclusive) are narrower than `range`."""

    project_id: str | None = None
    provider: str | None = None
    model: str | None = None
    status: Outcome | None = None
    experiment_id: str | None = None
    trace_id: str | None = None
    search: str | None = None
    """The id of a run or of a trace."""
    min_cost_usd: Decimal | None = None
    max_cost_usd: Decimal | None = None
    min_latency_ms: int | None = None
    max_latency_ms: int | None = None
    metadata_key: str | None = None
    metadata_value: str | None = None
    range: Period = Period.WEEK
    since: datetime | None = None
    until: datetime | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """The filter that a query string asks for; blank parameters are none.

        Raises `InvalidFilter` with every parameter that cannot be read.
        """
        values, details = {}, []
        for field, name in NAMES.items():
            text = query.get(name, "").strip()
            if text:
                try:
                    values[field] = _READERS.get(field, _text)(text)
                except _UnreadableError as error:
                    details.append(Detail(name, error.must))
        found = cls(**values)
        details += [Detail(name, must) for name, must in found._contradictions()]
        if details:
            raise InvalidFilter(details=tuple(details))
        return found

    @property
    def query(self) -> dict[str, str]:
        """The parameters of a query string that says this; what is as on a plain visit is left out."""
        return {name: _written(getattr(self, field)) for field, name in NAMES.items() if self._is_set(field)}

    @property
    def narrowed(self) -> tuple[str, ...]:
        """The fields that leave runs out, the time aside."""
        return tuple(
            field for field in NAMES if self._is_set(field) and field not in {"project_id", "range", "since", "until"}
        )

    def but(self, **changes: Any) -> Self:  # noqa: ANN401  # Any field of the filter.
        return replace(self, **changes)

    def without(self, *names: str) -> Self:
        """As it is when these fields say nothing."""
        plain_values: dict[str, Any] = {field.name: field.default for field in fields(self)}
        return replace(self, **{name: plain_values[name] for name in names})

    def starts_at(self, now: datetime) -> datetime | None:
        return self.since or self.range.start(now)

    def _is_set(self, field: str) -> bool:
        value = getattr(self, field)
        return value is not None and not (field == "range" and value is Period.WEEK)

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        if _exceeds(self.min_cost_usd, self.max_cost_usd):
            yield "maxCost", "must not be less than the lowest cost"
        if _exceeds(self.min_latency_ms, self.max_latency_ms):
            yield "maxLatency", "must not be less than the lowest latency"
        if self.since and self.until and self.since >= self.until:
            yield "until", "must be later than the start"
        if self.metadata_value is not None and self.metadata_key is None:
            yield "metadataKey", "must say which key has the value"


class _UnreadableError(Exception):
    def __init__(self, must: str) -> None:
        self.must = must
        super().__init__(must)


def _text(text: str) -> str:
    # What Postgres cannot hold is in no run; nothing that is stored is longer.
    if len(text) > MAX_NAME or "\0" in text:
        raise _UnreadableError(f"must be a text of at most {MAX_NAME} characters")
    return text


def _choice(choices: type[StrEnum]) -> Callable[[str], StrEnum]:
    def read(text: str) -> StrEnum:
        try:
            return choices(text)
        except ValueError:
            raise _UnreadableError(f"must be one of {', '.join(choices)}") from None

    return read


def _usd(text: str) -> Decimal:
    try:
        amount = Decimal(text.removeprefix("$"))
    except InvalidOperation:
        amount = Decimal(-1)
    if not (amount.is_finite() and 0 <= amount <= MAX_USD):
        raise _UnreadableError("must be an amount in US dollars, such as 0.05")
    return amount


def _milliseconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_COUNT)) and int(text) <= MAX_COUNT):
        raise _UnreadableError("must be a whole number of milliseconds, such as 1500")
    return int(text)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _UnreadableError("must be a time such as 2026-11-18T12:00, in UTC if it names no offset") from None


_READERS: dict[str, Callable[[str], Any]] = {
    "status": _choice(Outcome),
    "range": _choice(Period),
    "min_cost_usd": _usd,
    "max_cost_usd": _usd,
    "min_latency_ms": _milliseconds,
    "max_latency_ms": _milliseconds,
    "since": _moment,
    "until": _moment,
}


def _written(value: object) -> str:
    match value:
        case datetime():
            return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="auto").removesuffix(":00")
        case Decimal():
            return plain(value)
        case _:
            return str(value)


def _exceeds(low: Decimal | int | None, high: Decimal | int | None) -> bool:
    return low is not None and high is not None and low > high
