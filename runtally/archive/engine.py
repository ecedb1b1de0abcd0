"""Ask files of the archive in SQL, by DuckDB: in a thread, in bounded memory and time."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import msgspec

from runtally.errors import ArchiveError, ArchiveTooLarge, DamagedArchive
from runtally.models import arrow
from runtally.models.run import StoredRun
from runtally.money import USD_DECIMALS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Rows: TypeAlias = list[tuple[Any, ...]]

MAX_ROWS = 200_000
"""An answer that has more is refused."""
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "memory_limit": "256MB",
    "threads": 2,
    # What does not fit into memory is refused: nothing of a run is written to a disk.
    "temp_directory": "",
    # Nothing is fetched from anywhere.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_TYPES: dict[object, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    datetime: "TIMESTAMPTZ",
    "Decimal": f"DECIMAL({arrow.USD_DIGITS}, {USD_DECIMALS})",
}
# In a file they are JSON text.
_SHOWN = """tags::JSON::VARCHAR[] AS tags, units::JSON AS units, metadata::JSON AS metadata"""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def ask(paths: Sequence[str], sql: str, values: Sequence[object]) -> Rows:
    """Return the rows of a statement over `runs`, which are those of these files. To cancel it stops the engine as well.

    Raises `ArchiveTooLarge`, `DamagedArchive`, and `ArchiveError` where the engine cannot answer.
    """
    question = _Question(paths, sql, values)
    answering = asyncio.ensure_future(asyncio.to_thread(question.answer))
    try:
        return await asyncio.shield(answering)
    except asyncio.CancelledError:
        question.stop()
        await asyncio.gather(answering, return_exceptions=True)
        raise


class _Question:
    """A statement that another thread may break off."""

    def __init__(self, paths: Sequence[str], sql: str, values: Sequence[object]) -> None:
        self._paths, self._sql, self._values = paths, sql, values
        self._opened: DuckDBPyConnection | None = None
        self._is_stopped = False

    def stop(self) -> None:
        self._is_stopped = True
        if self._opened is not None:
            self._opened.interrupt()

    def answer(self) -> Rows:
        # An extra, of which the import takes some megabytes.
        import duckdb  # noqa: PLC0415

        with _database().cursor() as opened:
            self._opened = opened
            try:
                opened.execute("SET enable_progress_bar = false")
                if self._is_stopped:
                    raise ArchiveTooLarge
                # A view would be bound by itself, for which each file is opened once more.
                sql = f"WITH runs AS NOT MATERIALIZED ({_runs_of(self._paths)}) {self._sql}"
                rows = opened.execute(sql, list(self._values)).fetchmany(MAX_ROWS + 1)
            except (duckdb.OutOfMemoryException, duckdb.InterruptException) as error:
                raise ArchiveTooLarge from error
            except (duckdb.IOException, duckdb.InvalidInputException) as error:
                raise DamagedArchive from error
            except duckdb.Error as error:
                raise ArchiveError from error
            finally:
                self._opened = None
        if len(rows) > MAX_ROWS:
            raise ArchiveTooLarge
        return rows


@cache
def _database() -> "DuckDBPyConnection":
    """Open the engine once a process, because that takes as long as most questions; it keeps nothing of them."""
    import duckdb  # noqa: PLC0415  # As above.

    return duckdb.connect(config=_SETTINGS)


def _runs_of(paths: Sequence[str]) -> str:
    """SQL of `runs`: columns that a file does not have yet are NULL."""
    columns = ", ".join(f"NULL::{_type_of(field.type)} AS {field.name}" for field in msgspec.structs.fields(StoredRun))
    listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    files = f"SELECT * FROM read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"
    every = f"SELECT {columns} WHERE false UNION ALL BY NAME {files}" if paths else f"SELECT {columns} WHERE false"
    return f"SELECT * REPLACE ({_SHOWN}) FROM ({every})"


def _type_of(annotation: object) -> str:
    kind = next((kind for kind in get_args(annotation) if kind is not type(None)), annotation)
    return _TYPES.get("Decimal" if getattr(kind, "__name__", "") == "Decimal" else kind, "VARCHAR")


def read_time(microseconds: int) -> datetime:
    """Convert the result of `epoch_us` to a time; the library's own way needs another package."""
    return _EPOCH + timedelta(microseconds=microseconds)
