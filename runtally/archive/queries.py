"""SQL of the archive: its manifest, and the runs that leave the database for it."""

import uuid
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from runtally.archive.file import Identity, Sums
from runtally.db.bulk import affected_rows, in_chunks
from runtally.db.database import LONG_STATEMENT_SECONDS, Connection
from runtally.models.run import StoredRun
from runtally.usage.sums.tables import TOTALS

# Any number, as long as nothing else in the database uses it.
RETENTION_LOCK = 7_214_026_102

# Held until the transaction ends: one process at a time drops or archives runs, also behind a connection pooler.
TRY_LOCK = "SELECT pg_try_advisory_xact_lock($1)"
LOCK = f"SELECT pg_advisory_xact_lock({RETENTION_LOCK})"

# The runs of project $1 before $2 that nothing else needs: a run that waits for the relay, parked or not, stays. No run of
# a queued arrival was stored before its first one.
MAY_LEAVE = """project_id = $1
     AND occurred_at < $2
     AND NOT EXISTS (SELECT
                       FROM outbox
                      WHERE outbox.project_id = runs.project_id
                        AND outbox.run_id = runs.id)
     AND created_at < (SELECT coalesce(min(queued_at), 'infinity')
                         FROM outbox_arrivals
                        WHERE project_id = $1)"""

SELECT_FIRST = f"""
  SELECT occurred_at
    FROM runs
   WHERE {MAY_LEAVE}
ORDER BY occurred_at
   LIMIT 1
"""

_CHOSEN = f"""
  SELECT *
    FROM runs
   WHERE {MAY_LEAVE}
     AND occurred_at >= $4
ORDER BY occurred_at, id
   LIMIT $3"""

# Text is read where Python or JSON could change a digit; lists and objects are the text that a file has of them.
_EXPRESSIONS = {
    "tags": "to_json(tags)::text",
    "units": "units::text",
    "metadata": "metadata::text",
    "key_id": "key_id::text",
}
_COLUMNS = ", ".join(f"{_EXPRESSIONS.get(name, name)} AS {name}" for name in StoredRun.__struct_fields__)
SELECT_DOCUMENTS = f"""
  SELECT row_to_json(document)::text
    FROM (SELECT {_COLUMNS}
            FROM ({_CHOSEN}) AS chosen
        ORDER BY occurred_at, id) AS document
"""

SELECT_SUMS = f"""
SELECT count(*),
       coalesce(sum(cost_usd), 0),
       coalesce(sum(input_tokens), 0),
       coalesce(sum(output_tokens), 0),
       min(occurred_at),
       max(occurred_at)
  FROM ({_CHOSEN}) AS chosen
"""

# Check again what may have changed since the runs were read: their version, and whether one was queued.
DELETE_ARCHIVED = """
DELETE FROM runs
      USING unnest($2::text[], $3::integer[]) AS archived (id, version)
      WHERE runs.project_id = $1
        AND runs.id = archived.id
        AND runs.version = archived.version
        AND NOT EXISTS (SELECT
                          FROM outbox
                         WHERE outbox.project_id = runs.project_id
                           AND outbox.run_id = runs.id)
"""

SELECT_INSTALLATION = """
SELECT id,
       stopped_at IS NULL AS archives
  FROM installation
"""

INSERT_INSTALLATION = """
INSERT INTO installation (number, id, stopped_at)
     VALUES (1, $1, $2)
ON CONFLICT (number) DO NOTHING
"""

UPDATE_STOPPED = """
UPDATE installation
   SET stopped_at = $1
 WHERE (stopped_at IS NULL) <> ($1::timestamptz IS NULL)
"""

INSERT_FILE = """
INSERT INTO archive_files (project_id, id, state, path, first_at, last_at, created_at)
     VALUES ($1, $2, 'writing', $3, $4, $4, $5)
"""

KEEP_FILE = """
UPDATE archive_files
   SET state = 'kept',
       runs = $3,
       cost_usd = $4,
       input_tokens = $5,
       output_tokens = $6,
       first_at = $7,
       last_at = $8,
       size_bytes = $9,
       sha256 = $10
 WHERE project_id = $1
   AND id = $2
   AND state = 'writing'
"""

SELECT_LEFT_OVER = """
SELECT project_id,
       id,
       path
  FROM archive_files
 WHERE state <> 'kept'
"""

REMOVE_FILES = """
   UPDATE archive_files
      SET state = 'removing'
    WHERE project_id = $1
RETURNING runs
"""

FORGET_FILE = """
   UPDATE archive_files
      SET state = 'removing'
    WHERE path = $1
      AND state = 'kept'
RETURNING project_id, runs
"""

DELETE_FILE = """
DELETE FROM archive_files
      WHERE project_id = $1
        AND id = $2
"""

SELECT_FILES = """
  SELECT project_id,
         id,
         path,
         first_at,
         last_at,
         size_bytes,
         sha256,
         runs,
         cost_usd,
         input_tokens,
         output_tokens
    FROM archive_files
   WHERE state = 'kept'
     AND ($1::text IS NULL OR project_id = $1)
     AND ($2::timestamptz IS NULL OR last_at >= $2)
     AND ($3::timestamptz IS NULL OR first_at < $3)
ORDER BY project_id, first_at, id
"""

# The runs of the days from $2 to $3 that were stored once and are neither in the table of runs nor in a file that has no others,
# as it begins and ends with days what a project drops or archives.
SELECT_LEFT = f"""
SELECT coalesce(sum(stored.runs - live.runs), 0)::bigint
       - (SELECT coalesce(sum(runs), 0)
            FROM archive_files
           WHERE state = 'kept'
             AND ($1::text IS NULL OR project_id = $1)
             AND first_at >= $2
             AND last_at < $3)
  FROM projects
       CROSS JOIN LATERAL (SELECT coalesce(sum(runs), 0) AS runs
                             FROM {TOTALS.rows_of_projects} AS held
                            WHERE project_id = projects.id
                              AND grain = 1440
                              AND bucket >= $2
                              AND bucket < least($3, dropped_before)) AS stored
       CROSS JOIN LATERAL (SELECT count(*) AS runs
                             FROM runs
                            WHERE project_id = projects.id
                              AND occurred_at >= $2
                              AND occurred_at < least($3, dropped_before)) AS live
 WHERE dropped_before > $2
   AND ($1::text IS NULL OR id = $1)
"""

# What left the table of runs, and since when it may.
SELECT_GONE = """
SELECT count(*),
       coalesce(sum(runs), 0),
       (SELECT sum(extract(epoch FROM dropped_before))
          FROM projects)
  FROM archive_files
 WHERE state = 'kept'
"""

SELECT_PATHS = """
SELECT path
  FROM archive_files
"""

SELECT_CONTENTS = """
SELECT count(*) FILTER (WHERE state = 'kept'),
       count(*) FILTER (WHERE state <> 'kept'),
       coalesce(sum(runs) FILTER (WHERE state = 'kept'), 0),
       coalesce(sum(size_bytes) FILTER (WHERE state = 'kept'), 0)::bigint,
       max(last_at) FILTER (WHERE state = 'kept')
  FROM archive_files
"""


class Installation(NamedTuple):
    """The identity of this database; `archives` says whether runs are to be archived before they are dropped."""

    id: uuid.UUID
    archives: bool


class FilePlace(NamedTuple):
    """A file by its project and number, and its place below ARCHIVE_URL."""

    project_id: str
    id: uuid.UUID
    path: str


class KeptFile(NamedTuple):
    """A row of the manifest: a file that has runs which no table has any more."""

    project_id: str
    id: uuid.UUID
    path: str
    first_at: datetime
    last_at: datetime
    size_bytes: int
    sha256: bytes
    sums: Sums


Gone: TypeAlias = tuple[object, ...]


class Contents(NamedTuple):
    """What the manifest lists, added up."""

    files: int
    left_over: int
    runs: int
    size_bytes: int
    last_at: datetime | None


class Span(NamedTuple):
    """The oldest runs of a project in a span of time, `since` before `before`."""

    project_id: str
    before: datetime
    limit: int
    since: datetime


class Chosen(NamedTuple):
    """What the runs that go into one file add up to, and when they were made."""

    sums: Sums
    first_at: datetime
    last_at: datetime


async def try_lock(connection: Connection) -> bool:
    """Lock out other processes until the transaction ends. Returns False if another one drops or archives runs."""
    return bool(await connection.fetchval(TRY_LOCK, RETENTION_LOCK))


async def select_sums(connection: Connection, which: Span) -> Chosen | None:
    """Add up the oldest runs that may leave the database; None if there are none."""
    row = await connection.fetchrow(SELECT_SUMS, *which)
    return Chosen(Sums(*row[:4]), *row[4:]) if row and row[0] else None


async def select_documents(connection: Connection, which: Span, chunk: int) -> AsyncGenerator[list[str], None]:
    """Read the same runs as JSON, in chunks, inside the same snapshot."""
    async for rows in in_chunks(connection, SELECT_DOCUMENTS, *which, chunk=chunk, seconds=LONG_STATEMENT_SECONDS):
        yield [row[0] for row in rows]


async def delete_archived(connection: Connection, project_id: str, runs: Sequence[Identity]) -> int:
    """Delete those of the runs that are as they were archived, and return how many these are."""
    ids, versions = [run.id for run in runs], [run.version for run in runs]
    return affected_rows(await connection.execute(DELETE_ARCHIVED, project_id, ids, versions))


async def select_installation(connection: Connection) -> Installation | None:
    row = await connection.fetchrow(SELECT_INSTALLATION)
    return Installation(*row) if row else None


async def insert_file(connection: Connection, new: FilePlace, since: datetime, now: datetime) -> None:
    """List a file that is going to be written, with runs since a time."""
    await connection.execute(INSERT_FILE, *new, since, now)


async def keep_file(connection: Connection, file: KeptFile) -> bool:
    """List a file as kept; returns False where it was given up meanwhile."""
    values = (*file.sums, file.first_at, file.last_at, file.size_bytes, file.sha256)
    return affected_rows(await connection.execute(KEEP_FILE, file.project_id, file.id, *values)) == 1


async def delete_file(connection: Connection, project_id: str, number: uuid.UUID) -> None:
    await connection.execute(DELETE_FILE, project_id, number)


async def select_files(
    connection: Connection,
    project_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> list[KeptFile]:
    """Read the manifest, of one project or of all; with a time, whose end is exclusive, the files that may have runs of it."""
    rows = await connection.fetch(SELECT_FILES, project_id, since, until)
    return [KeptFile._make((*row[:7], Sums(*row[7:]))) for row in rows]


async def select_left(connection: Connection, project_id: str | None, since: datetime, until: datetime) -> int:
    """Count the runs of some days that are neither in the table of runs nor in a file that has no others, from the sums of these days."""
    return int(await connection.fetchval(SELECT_LEFT, project_id, since, until))


async def select_gone(connection: Connection) -> Gone:
    """Read a value that changes whenever more runs leave the table of runs, or a file of the archive goes."""
    return tuple(await connection.fetchrow(SELECT_GONE) or ())


async def select_contents(connection: Connection) -> Contents:
    row = await connection.fetchrow(SELECT_CONTENTS)
    return Contents(*row or ())
