"""The archive: which installation it belongs to, and the Parquet files of runs that left the table of runs."""

import uuid
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from sqlalchemy import BigInteger, CheckConstraint, Integer, LargeBinary, Numeric, SmallInteger, Uuid
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, Usd, column


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
