"""SQL of cells and of the places of projects."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg

from runtally.db.connecting import OpenConnection
from runtally.db.database import Connection

SELECT_CELLS = """
  SELECT name,
         id,
         is_open,
         (SELECT count(*) FROM project_places WHERE cell = cells.name) AS projects
    FROM cells
ORDER BY name <> 'main', name
"""

SELECT_IDS = """
SELECT name, id
  FROM cells
"""

INSERT_CELL = """
INSERT INTO cells (name, id, is_open, added_at)
     VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING
"""

SELECT_PLACES = """
SELECT project_id, cell
  FROM project_places
"""

SELECT_PLACE = """
SELECT cell
  FROM project_places
 WHERE project_id = $1
"""

COUNT_PLACES = """
SELECT count(*)
  FROM project_places
"""

# To the cell with the fewest projects, of those that the process knows.
INSERT_PLACE = """
INSERT INTO project_places (project_id, cell, placed_at)
     SELECT $1::text, name, $3::timestamptz
       FROM cells
      WHERE name = ANY ($2::text[])
        AND is_open
   ORDER BY (SELECT count(*) FROM project_places WHERE cell = cells.name), name
      LIMIT 1
ON CONFLICT DO NOTHING
"""

INSERT_PLACES = """
INSERT INTO project_places (project_id, cell, placed_at)
     SELECT project_id, $2::text, $3::timestamptz
       FROM unnest($1::text[]) AS found (project_id)
ON CONFLICT DO NOTHING
"""

# Of what a cell has, which is said to be elsewhere.
SELECT_ELSEWHERE = """
  SELECT project_id
    FROM project_places
   WHERE project_id = ANY ($1::text[])
     AND cell <> $2
ORDER BY project_id
   LIMIT 10
"""

SELECT_PROJECTS = """
SELECT id
  FROM projects
"""

SELECT_IDENTITY = """
SELECT id, name
  FROM cell_identity
"""

INSERT_IDENTITY = """
INSERT INTO cell_identity (number, id, name)
     VALUES (1, $1, $2)
ON CONFLICT DO NOTHING
"""


class ListedCell(NamedTuple):
    """A cell that was added, and how many projects are or were there."""

    name: str
    id: uuid.UUID
    is_open: bool
    projects: int


class Identity(NamedTuple):
    """What a cell's database says that it is."""

    id: uuid.UUID
    name: str


async def select_cells(connection: Connection) -> list[ListedCell]:
    return [ListedCell(*row) for row in await connection.fetch(SELECT_CELLS)]


async def select_ids(connection: Connection) -> dict[str, uuid.UUID]:
    """Read the identity of each cell, by its name."""
    return {row["name"]: row["id"] for row in await connection.fetch(SELECT_IDS)}


async def insert_cell(connection: Connection, name: str, cell_id: uuid.UUID, now: datetime, *, is_open: bool) -> None:
    await connection.execute(INSERT_CELL, name, cell_id, is_open, now)


async def select_places(connection: Connection) -> dict[str, str]:
    """Read the cell of each project."""
    return {row["project_id"]: row["cell"] for row in await connection.fetch(SELECT_PLACES)}


async def count_places(connection: Connection) -> int:
    count: int = await connection.fetchval(COUNT_PLACES)
    return count


async def select_place(connection: Connection, project_id: str) -> str | None:
    cell: str | None = await connection.fetchval(SELECT_PLACE, project_id)
    return cell


async def insert_place(connection: Connection, project_id: str, cells: Sequence[str], now: datetime) -> None:
    """Put a project into one of these cells that is open, unless it has a place."""
    await connection.execute(INSERT_PLACE, project_id, cells, now)


async def insert_places(connection: Connection, project_ids: Sequence[str], cell: str, now: datetime) -> list[str]:
    """Say that these projects are in a cell, and return some that are said to be elsewhere."""
    await connection.execute(INSERT_PLACES, project_ids, cell, now)
    return [row["project_id"] for row in await connection.fetch(SELECT_ELSEWHERE, project_ids, cell)]


async def select_projects(connection: Connection) -> list[str]:
    return [row["id"] for row in await connection.fetch(SELECT_PROJECTS)]


async def select_identity(connection: "Connection | OpenConnection") -> Identity | None:
    """Read what a database says that it is; None for one that is no cell yet, or has no tables."""
    try:
        row = await connection.fetchrow(SELECT_IDENTITY)
    except asyncpg.UndefinedTableError:
        return None
    return Identity(*row) if row else None


async def insert_identity(connection: Connection, identity: Identity) -> None:
    await connection.execute(INSERT_IDENTITY, *identity)
