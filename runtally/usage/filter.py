"""The one filter of runs, read from a query string and written back into one. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, Self
from uuid import UUID

from runtally.errors import Detail, InvalidFilter
from runtally.fields import MAX_NAME, parse_whole, trimmed
from runtally.models.run import Status
from runtally.money import MAX_USD, plain
from runtally.usage.dimensions import (
    DIMENSIONS,
    MAX_KEY_LENGTH,
    METADATA,
    STATUS,
    Dimension,
    dimension_of_key,
    is_key,
)
from runtally.usage.window import Range, Window

NAMES = {
    "project_id": "project",
    "provider": "provider",
    "model": "model",
    "status": "status",
    "experiment_id": "experiment",
    "trace_id": "trace",
    "error_code": "errorCode",
    "key_id": "key",
    "service_tier": "serviceTier",
    "region": "region",
    "session_id": "session",
    "user_id": "user",
    "tag": "tags",
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
"""The query parameter of each field; those of `metadata` are `metadata.<key>`."""


MAX_KEYS = 12
"""Keys of metadata that a filter may name."""
_AS_SENT = {"error_code"}
"""Fields whose texts are stored with blanks around them, if they were sent so."""
_PARAMETER = re.compile(r"[A-Za-z_.-]{1,32}")
_SHOWN_NAMES = 5


class Outcome(StrEnum):
    """The outcomes that a filter can select; `failed` is an error or a timeout."""

    SUCCESS = Status.SUCCESS.value
    FAILED = "failed"
    ERROR = Status.ERROR.value
    TIMEOUT = Status.TIMEOUT.value


class Period(StrEnum):
    """A range that ends now, the same as a report's, or all time."""

    DAY = Range.DAY.value
    WEEK = Range.WEEK.value
    MONTH = Range.MONTH.value
    ALL = "all"

    def window(self, now: datetime) -> Window | None:
        """Return the window of the report's bars: runs of clocks that are ahead of its last one are in neither."""
        return None if self is Period.ALL else Window.of(Range(self.value), now, Range(self.value).chart_interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """A filter of runs, a field for each property; None keeps any value. `since` and `until` (exclusive) are narrower than `range`."""

    project_id: str | None = None
    provider: str | None = None
    model: str | None = None
    status: Outcome | None = None
    experiment_id: str | None = None
    trace_id: str | None = None
    error_code: str | None = None
    key_id: UUID | None = None
    """The id of the key that sent the run."""
    service_tier: str | None = None
    region: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    tag: str | None = None
    """A tag that the run has among others."""
    metadata: tuple[tuple[str, str], ...] = ()
    """Keys of metadata and the value that each must have."""
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
        """Parse the filter of a query string; blank parameters are ignored.

        Raises `InvalidFilter` with every parameter that cannot be read.
        """
        values, details = {}, []
        for name_of_field, name in NAMES.items():
            sent = query.get(name, "")
            if text := trimmed(sent):
                text = sent if name_of_field in _AS_SENT else text
                try:
                    values[name_of_field] = _READERS.get(name_of_field, _text)(text)
                except _UnreadableError as error:
                    details.append(Detail(name, error.must))
        try:
            found = cls(**values).with_values(_values_of_keys(query))
        except _UnreadableError as error:
            details.append(Detail(f"{METADATA}<key>", error.must))
            found = cls(**values)
        details += [Detail(name, must) for name, must in found._contradictions()]
        if details:
            raise InvalidFilter(details=tuple(details))
        return found

    @classmethod
    def parse_strictly(cls, query: Mapping[str, str]) -> Self:
        """Parse a query that may hold nothing but a filter: a misspelt name must not select more runs.

        Raises `InvalidFilter`, also for names that are no filter.
        """
        known = set(NAMES.values())
        unknown = [name for name in query if name not in known and not name.startswith(METADATA)]
        if unknown:
            # A name that can be no parameter may be anything, and is not repeated.
            shown = sorted({name if _PARAMETER.fullmatch(name) else "query" for name in unknown})
            raise InvalidFilter(
                f"There is no such filter: {', '.join(shown[:_SHOWN_NAMES])}. Filters are "
                f"{', '.join(name for field, name in NAMES.items() if field != 'project_id')} and {METADATA}<key>.",
                details=tuple(Detail(name, "is no filter") for name in shown),
            )
        return cls.parse(query)

    @property
    def query(self) -> dict[str, str]:
        """The query parameters of the filter; defaults are left out."""
        found = {name: _written(getattr(self, each)) for each, name in NAMES.items() if self._is_set(each)}
        return found | {f"{METADATA}{key}": value for key, value in self.metadata}

    @property
    def narrowed(self) -> tuple[str, ...]:
        """The fields that select some runs, except those of time."""
        named = [each for each in NAMES if self._is_set(each) and each not in {"project_id", "range", "since", "until"}]
        return (*named, "metadata") if self.metadata else tuple(named)

    @property
    def is_narrowed(self) -> bool:
        """Whether the filter excludes any run of its projects, apart from its time range."""
        return bool(self.narrowed)

    @property
    def is_of_models(self) -> bool:
        """Whether sums by provider and model can answer it."""
        return set(self.narrowed) <= {"provider", "model"}

    @property
    def is_of_reports(self) -> bool:
        """Whether the memo's reader can answer it; for one project that includes status and experiment, which have indexes."""
        known = (
            {"provider", "model", "status", "experiment_id"} if self.project_id is not None else {"provider", "model"}
        )
        return set(self.narrowed) <= known

    @property
    def is_of_any_model(self) -> bool:
        """Whether it selects a provider or a model."""
        return self.provider is not None or self.model is not None

    @property
    def as_indexed(self) -> Self:
        """The part of the filter that an index answers: the candidates among which the others are found."""
        is_of_failed = self.status not in {None, Outcome.SUCCESS}
        return type(self)(
            project_id=self.project_id,
            trace_id=self.trace_id,
            experiment_id=self.experiment_id,
            search=self.search,
            status=Outcome.FAILED if is_of_failed else None,
        )

    @property
    def is_all_but_failed(self) -> bool:
        """Whether it only adds to a filter by provider and model that the few failed runs are left out."""
        return self.status is Outcome.SUCCESS and set(self.narrowed) <= {"provider", "model", "status"}

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401  # Any field of the filter.
        return replace(self, **changes)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions for which it selects one value."""
        of_fields = [
            dimension
            for dimension in DIMENSIONS.values()
            if dimension.filter_field != "status" and self._is_set(dimension.filter_field)
        ]
        of_status = [STATUS] if self.status is not None else []
        return (*of_fields, *of_status, *(dimension_of_key(key) for key, _ in self.metadata))

    @property
    def is_of_dimensions(self) -> bool:
        """Whether it selects single values of dimensions, and nothing else but time."""
        return set(self.narrowed) <= {dimension.filter_field for dimension in self.dimensions}

    def value_of(self, dimension: Dimension) -> str | None:
        """Return the selected value of a dimension; None if all are."""
        if dimension.metadata_keys:
            return dict(self.metadata).get(dimension.name.removeprefix(METADATA))
        value = getattr(self, dimension.filter_field)
        return None if value is None else str(value)

    def with_values(self, values: Iterable[tuple[str, str]]) -> Self:
        """Return the filter with these values of metadata keys added; values of user and session go to their fields."""
        found, of_keys = self, dict(self.metadata)
        for key, value in values:
            dimension = dimension_of_key(key)
            if dimension.metadata_keys:
                of_keys[dimension.name.removeprefix(METADATA)] = value
            else:
                found = found.replace(**{dimension.filter_field: value})
        return found.replace(metadata=tuple(sorted(of_keys.items())))

    def with_value(self, dimension: Dimension, value: str) -> Self:
        """Return the filter with a value of a dimension added. Raises `InvalidFilter` for an invalid value."""
        name = dimension.name if dimension.metadata_keys else NAMES[dimension.filter_field]
        read = type(self).parse({name: value})
        if dimension.metadata_keys:
            return self.with_values(read.metadata)
        return self.replace(**{dimension.filter_field: getattr(read, dimension.filter_field)})

    def without_dimension(self, dimension: Dimension) -> Self:
        """Return the filter without its value of a dimension."""
        if not dimension.metadata_keys:
            return self.without(dimension.filter_field)
        name = dimension.name.removeprefix(METADATA)
        return self.replace(metadata=tuple(pair for pair in self.metadata if pair[0] != name))

    def without(self, *names: str) -> Self:
        """Return the filter without conditions on these fields."""
        plain_values: dict[str, Any] = {each.name: each.default for each in fields(self)}
        return replace(self, **{name: plain_values[name] for name in names})

    def starts_at(self, now: datetime) -> datetime | None:
        window = self.range.window(now)
        return self.since or (window.start if window else None)

    def ends_at(self, now: datetime) -> datetime | None:
        """Return the end, exclusive; None for a filter that begins at a time of its own and has no end."""
        window = self.range.window(now)
        return self.until or (None if self.since or window is None else window.end)

    def _is_set(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None and not (name == "range" and value is Period.WEEK)

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        if _exceeds(self.min_cost_usd, self.max_cost_usd):
            yield "maxCost", "must not be less than the lowest cost"
        if _exceeds(self.min_latency_ms, self.max_latency_ms):
            yield "maxLatency", "must not be less than the lowest latency"
        if self.since and self.until and self.since >= self.until:
            yield "until", "must be later than the start"
        if self.metadata_value is not None and self.metadata_key is None:
            yield "metadataKey", "must say which key has the value"


ALL_RUNS = RunFilter()


class _UnreadableError(Exception):
    def __init__(self, must: str) -> None:
        self.must = must
        super().__init__(must)


def _text(text: str) -> str:
    # What Postgres cannot hold is in no run; nothing that is stored is longer.
    if len(text) > MAX_NAME or "\0" in text:
        raise _UnreadableError(f"must be a text of at most {MAX_NAME} characters")
    return text


def _values_of_keys(query: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Read the parameters that name a metadata key; empty ones are ignored. Raises `_UnreadableError`.

    Metadata is stored as it was sent, blanks included, while users, sessions and tags are trimmed.
    """
    names = [name for name in query if name.startswith(METADATA)]
    if len(names) > MAX_KEYS:
        raise _UnreadableError(f"must be at most {MAX_KEYS} keys")
    for name in names:
        key, value = name.removeprefix(METADATA), query.get(name, "")
        if not is_key(key):
            raise _UnreadableError(f"must name a key of 1 to {MAX_KEY_LENGTH} characters")
        if not dimension_of_key(key).metadata_keys:
            value = trimmed(value)
        if value:
            yield key, _text(value)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise _UnreadableError("must be the id of a key") from None


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
    number = parse_whole(text)
    if number is None:
        raise _UnreadableError("must be a whole number of milliseconds, such as 1500")
    return number


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _UnreadableError("must be a time such as 2026-11-18T12:00, in UTC if it names no offset") from None


_READERS: dict[str, Callable[[str], Any]] = {
    "status": _choice(Outcome),
    "range": _choice(Period),
    "key_id": _uuid,
    "service_tier": lambda text: _text(text).lower(),
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
