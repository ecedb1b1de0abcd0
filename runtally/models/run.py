"""The stored values of one LLM call. `RunColumns` declares them once; table, insert, import and documentation read it.

The archive has Parquet files of runs that left the table of runs.
"""

import uuid
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import BigInteger, CheckConstraint, Index, Integer, LargeBinary, Numeric, SmallInteger, Uuid, text
from sqlalchemy.types import Boolean
from sqlmodel import SQLModel

from runtally.models.base import Json, TextArray, Timestamp, Usd, column
from runtally.units import kind_named


class Status(StrEnum):
    """The outcome of a run."""

    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"


class CostSource(StrEnum):
    """The source of a run's cost."""

    PROVIDER = "provider"
    CATALOG = "catalog"
    ESTIMATED = "estimated"


def count_of(kind: str) -> Any:  # noqa: ANN401  # Typed like `column`.
    """Declare a column for the counts of a kind of tokens."""
    return column(kind_named(kind).meaning, BigInteger, default=None)


class RunColumns(SQLModel):
    """The columns of a run, in their order; the tables that hold runs add keys and indexes."""

    project_id: str = column("Project the run belongs to.", key=True)
    id: str = column("Identity within the project: the runId that was sent, else a UUIDv7.", key=True)
    occurred_at: datetime = column("When the call was made (UTC); decides bucket and price.", Timestamp)
    provider: str = column("Provider, as sent.")
    model: str = column("Model, as sent.")
    status: str = column("success, error or timeout.")
    error_code: str | None = column("Error code, as sent.", default=None)
    finish_reason: str | None = column("Why the model stopped, as sent.", default=None)
    input_tokens: int | None = count_of("input")
    output_tokens: int | None = count_of("output")
    cached_input_tokens: int | None = count_of("cached_input")
    cache_write_tokens: int | None = count_of("cache_write")
    reasoning_tokens: int | None = count_of("reasoning")
    audio_input_tokens: int | None = count_of("audio_input")
    audio_output_tokens: int | None = count_of("audio_output")
    units: dict[str, Any] | None = column(
        "Counts of further units that are charged, by name, such as webSearch; empty without any.", Json, default=None
    )
    service_tier: str | None = column("Service tier that the vendor charged, in lower case.", default=None)
    region: str | None = column("Region in which the vendor processed the call, as sent.", default=None)
    latency_ms: int | None = column("Latency in milliseconds.", BigInteger, default=None)
    time_to_first_token_ms: int | None = column(
        "Milliseconds until the first token of a streamed answer.", BigInteger, default=None
    )
    cost_usd: Decimal | None = column("Cost in US dollars; empty while no price is known.", Usd, default=None)
    cost_source: str | None = column("provider, catalog or estimated; empty without a cost.", default=None)
    cost_estimated: bool | None = column("Whether the cost is an estimate.", Boolean, default=None)
    cost_is_minimum: bool | None = column(
        "True where a unit of the run has no price, so that it cost more than this; empty otherwise.",
        Boolean,
        default=None,
    )
    without_usage: bool | None = column(
        "True where the cost is that of nothing: the model has a price, and the run neither tokens nor other units nor a "
        "reported cost; empty otherwise.",
        Boolean,
        default=None,
    )
    counted_as_other: bool | None = column(
        'True where sums, groups and filters have it under provider and model "(other)", because its project had so many names '
        "of models on that day; empty otherwise.",
        Boolean,
        default=None,
    )
    cache_savings_usd: Decimal | None = column(
        "What the run would have cost more without a cache, in US dollars, below zero where writing to one cost more than "
        "reading from it saved; empty without cached tokens or without a price.",
        Usd,
        default=None,
    )
    reported_cost_usd: Decimal | None = column("Cost that the client reported.", Usd, default=None)
    price_entry_id: int | None = column("Price entry that priced the run.", BigInteger, default=None)
    experiment_id: str | None = column("Experiment the run belongs to.", default=None)
    trace_id: str | None = column("Trace the run belongs to.", default=None)
    session_id: str | None = column("Session the run belongs to.", default=None)
    user_id: str | None = column("User the call was made for.", default=None)
    tags: list[str] | None = column("Tags, each of them once.", TextArray, default=None)
    key_id: UUID | None = column(
        "Key that sent the run, the id of an entry of api_keys; all zeros: the shared ingest key.", Uuid, default=None
    )
    client_id: str | None = column("The client's own id; no key.", default=None)
    idempotency_key: str | None = column("Idempotency key, as sent; not enforced.", default=None)
    prompt_hash: str | None = column("Hash of the prompt, made by the client.", default=None)
    prompt_preview: str | None = column("Start of the prompt, at most 160 characters.", default=None)
    # SQLAlchemy's classes already have an attribute `metadata`; the column has the right name.
    meta: dict[str, Any] | None = column("Free-form metadata without content.", Json, default=None, name="metadata")
    created_at: datetime = column("When the run was stored (UTC).", Timestamp)
    version: int = column("Grows with each change of the run.", Integer)


class Run(RunColumns, table=True):
    """A live run. The primary key begins with the project, within which the run's id is unique."""

    __tablename__ = "runs"
    __table_args__ = (
        CheckConstraint("status IN ('success', 'error', 'timeout')", name="status"),
        CheckConstraint("cost_source IN ('provider', 'catalog', 'estimated')", name="cost_source"),
        CheckConstraint("cost_usd >= 0", name="cost_usd"),
        # Metrics and pages read one project's runs of a time range.
        Index("ix_runs_project_id_occurred_at", "project_id", "occurred_at"),
        # A verdict reads the last runs of one experiment; most runs belong to none.
        Index(
            "ix_runs_experiment",
            "project_id",
            "experiment_id",
            "occurred_at",
            postgresql_where=text("experiment_id IS NOT NULL"),
        ),
        # Failures over a long time are few; without this index they are searched for among all runs (1 byte a run).
        Index("ix_runs_failed", "project_id", "occurred_at", postgresql_where=text("status <> 'success'")),
        # The runs of one trace, at any time (28 bytes for a run with a trace).
        Index("ix_runs_trace", "project_id", "trace_id", postgresql_where=text("trace_id IS NOT NULL")),
        # The runs of one session, of which most have several: Postgres stores its id once for them.
        Index("ix_runs_session", "project_id", "session_id", postgresql_where=text("session_id IS NOT NULL")),
        # A model that is rarely used. Its runs are sorted by time when they are read, which keeps this index small:
        # Postgres stores each name once for many runs (7 bytes a run).
        Index("ix_runs_project_id_model", "project_id", "model"),
        # A new price looks for the few runs without a cost, in the order of the key.
        Index("ix_runs_unpriced", "project_id", "id", postgresql_where=text("cost_usd IS NULL")),
    )


class StoredRun(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A run in Python: the columns of `RunColumns`, in their order."""

    project_id: str
    id: str
    occurred_at: datetime
    provider: str
    model: str
    status: Status
    error_code: str | None = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    audio_input_tokens: int | None = None
    audio_output_tokens: int | None = None
    units: dict[str, int | float] | None = None
    service_tier: str | None = None
    region: str | None = None
    latency_ms: int | None = None
    time_to_first_token_ms: int | None = None
    cost_usd: Decimal | None = None
    cost_source: CostSource | None = None
    cost_estimated: bool | None = None
    cost_is_minimum: bool | None = None
    without_usage: bool | None = None
    counted_as_other: bool | None = None
    cache_savings_usd: Decimal | None = None
    reported_cost_usd: Decimal | None = None
    price_entry_id: int | None = None
    experiment_id: str | None = None
    trace_id: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    tags: list[str] | None = None
    key_id: UUID | None = None
    client_id: str | None = None
    idempotency_key: str | None = None
    prompt_hash: str | None = None
    prompt_preview: str | None = None
    metadata: dict[str, Any] | None = None
    created_at: datetime
    version: int

    @property
    def answered_by(self) -> str | None:
        """The model that answered, if the client reported it: `model` is the requested one, which may be a router."""
        model = (self.metadata or {}).get("responseModel")
        return model if isinstance(model, str) else None


class FileState(StrEnum):
    """The state of a file in the archive."""

    WRITING = "writing"
    """It may be there in part or not at all; its runs are in the table of runs."""
    KEPT = "kept"
    """It is there, and its runs are in no table any more."""
    REMOVING = "removing"
    """It is to be deleted: its project was erased, or it was given up."""


class Installation(SQLModel, table=True):
    """The identity of this database, made when its archive is; at most one row."""

    __tablename__ = "installation"
    __table_args__ = (CheckConstraint("number = 1", name="number"),)

    number: int = column("Always 1.", SmallInteger, key=True)
    id: uuid.UUID = column("Identity, which the archive has in its file runtally-archive.json.", Uuid)
    stopped_at: datetime | None = column(
        "When archiving was stopped by a command (UTC); empty: runs are dropped only once they are archived.",
        Timestamp,
        default=None,
    )


class ArchiveFile(SQLModel, table=True):
    """The manifest of the archive: one row for each file. The project has no foreign key, as it may be erased first."""

    __tablename__ = "archive_files"
    __table_args__ = (CheckConstraint("state IN ('writing', 'kept', 'removing')", name="state"),)

    project_id: str = column("Project of the runs.", key=True)
    id: uuid.UUID = column("Number of the file, a part of its name.", Uuid, key=True)
    state: str = column("writing, kept or removing.")
    path: str = column("Place below ARCHIVE_URL.")
    first_at: datetime = column("When the first of the runs was made (UTC).", Timestamp)
    last_at: datetime = column("When the last of the runs was made (UTC).", Timestamp)
    runs: int = column("Runs.", Integer, server_default="0")
    cost_usd: Decimal = column("Cost of the runs in US dollars.", Usd, server_default="0")
    input_tokens: Decimal = column("Input tokens of the runs.", Numeric, server_default="0")
    output_tokens: Decimal = column("Output tokens of the runs.", Numeric, server_default="0")
    size_bytes: int = column("Size of the file in bytes.", BigInteger, server_default="0")
    sha256: bytes | None = column("SHA-256 of the file; empty until it is kept.", LargeBinary, default=None)
    created_at: datetime = column("When writing began (UTC).", Timestamp)
