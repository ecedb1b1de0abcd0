"""Run statements that are asked for at the same time as one.

A page asks for ten things that do not depend on each other. To send each by itself takes a round trip and some work of
the driver's, which together take longer than the answers of most.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from operator import itemgetter
from typing import Any, TypeVar, cast, overload

from asyncpg import Record

from runtally.db.database import Connection

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
_VALUE = re.compile(r"\$(\d+)")
_PART = "part "


@dataclass(slots=True)
class _Statement:
    sql: str
    values: tuple[object, ...]
    has_nested_loops: bool
    answers: list[asyncio.Future[list[Any]]] = field(default_factory=list)

    def is_same(self, other: "_Statement") -> bool:
        """Return whether both have the same answer."""
        return self.sql == other.sql and self.values == other.values


class Row(tuple[Any, ...]):  # noqa: SLOT001  # Its types have.
    """A row of one of several statements, whose values are found by place or by name."""

    names: tuple[str, ...]

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401  # Whatever is selected.
        return super().__getitem__(self.names.index(place) if isinstance(place, str) else place)

    def keys(self) -> tuple[str, ...]:
        return self.names


class Reads(ABC):
    """Runs readings that do not depend on each other."""

    @overload
    async def together(self, one: Coroutine[Any, Any, A], two: Coroutine[Any, Any, B], /) -> tuple[A, B]: ...
    @overload
    async def together(
        self, one: Coroutine[Any, Any, A], two: Coroutine[Any, Any, B], three: Coroutine[Any, Any, C], /
    ) -> tuple[A, B, C]: ...
    @overload
    async def together(
        self,
        one: Coroutine[Any, Any, A],
        two: Coroutine[Any, Any, B],
        three: Coroutine[Any, Any, C],
        four: Coroutine[Any, Any, D],
        /,
    ) -> tuple[A, B, C, D]: ...

    async def together(self, *readings: Coroutine[Any, Any, Any]) -> tuple[Any, ...]:
        """Run several readings, and return what each returned. When one fails, the others are cancelled."""
        return tuple(await self.each(readings))

    @abstractmethod
    async def each(self, readings: Sequence[Coroutine[Any, Any, A]]) -> list[A]:
        """Run any number of readings, and return what each returned."""


class ReadsInTurn(Reads):
    """Runs one reading after the other, for readings that ask several databases at once.

    At the same time, each could wait in one database for a statement of another that waits in another database for it.
    """

    async def each(self, readings: Sequence[Coroutine[Any, Any, A]]) -> list[A]:
        try:
            return [await reading for reading in readings]
        finally:
            for reading in readings:
                reading.close()


class CombinedReads(Reads):
    """A connection for reading. What `together` runs at the same time waits until all of it asks or is done.

    Every statement sees the same moment, so the connection must be a snapshot.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Readings that may still ask, of which those that wait have an answer in here.
        self._running = 1
        self._asked: list[_Statement] = []
        self._sent: Sequence[_Statement] = ()
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def over(cls, connection: "Connection | CombinedReads") -> "CombinedReads":
        """Return the reads over a connection, or the connection if it is that already."""
        return connection if isinstance(connection, CombinedReads) else cls(connection)

    @property
    def connection(self) -> Connection:
        """This, for functions that read over a connection."""
        return cast("Connection", self)

    async def fetch(self, sql: str, *values: object, has_nested_loops: bool = True) -> list[Any]:
        """Run a statement; without nested loops, Postgres joins nothing row by row in any of those it is sent with."""
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        asked = _Statement(sql, values, has_nested_loops)
        same = next((query for query in self._asked if query.is_same(asked)), None)
        if same is None:
            self._asked.append(asked)
        (same or asked).answers.append(answer)
        self._run_if_all_wait()
        try:
            return await answer
        except asyncio.CancelledError:
            await self._forget(answer)
            raise

    async def fetchrow(self, sql: str, *values: object) -> Any:  # noqa: ANN401  # Whatever is selected.
        rows = await self.fetch(sql, *values)
        return rows[0] if rows else None

    async def fetchval(self, sql: str, *values: object) -> Any:  # noqa: ANN401  # Whatever is selected.
        row = await self.fetchrow(sql, *values)
        return None if row is None else row[0]

    async def each(self, readings: Sequence[Coroutine[Any, Any, A]]) -> list[A]:
        """Run any number of readings at the same time, and return what each returned."""
        if not readings:
            return []
        left = len(readings)
        # The one who waits for them asks nothing meanwhile.
        self._running += left - 1

        async def run(reading: Coroutine[Any, Any, A]) -> A:
            nonlocal left
            found = await reading
            left -= 1
            # The last one leaves its place to who waits for all.
            if left:
                self._running -= 1
                self._run_if_all_wait()
            return found

        try:
            return await gathered([run(reading) for reading in readings])
        except BaseException:
            # One that failed keeps its place until here, so that nothing was sent that would have to be cancelled now.
            self._running -= max(left - 1, 0)
            raise

    async def _forget(self, answer: "asyncio.Future[list[Any]]") -> None:
        """Leave out what nobody waits for any more, because its reading was cancelled."""
        for query in self._asked:
            if answer in query.answers:
                query.answers.remove(answer)
        self._asked = [query for query in self._asked if query.answers]
        if self._task is not None and not _unanswered(self._sent):
            self._task.cancel()
            await asyncio.wait([self._task])

    def _run_if_all_wait(self) -> None:
        if self._asked and sum(len(query.answers) for query in self._asked) == self._running:
            self._sent, self._asked = self._asked, []
            # Not in the reading that asked last, which may be cancelled while others wait.
            self._task = asyncio.create_task(self._run(self._sent))

    async def _run(self, asked: Sequence[_Statement]) -> None:
        """Run statements as one, and hand out the rows, or the error, to all that wait."""
        is_joined_freely = all(query.has_nested_loops for query in asked)
        try:
            if not is_joined_freely:
                await self._connection.execute("SET LOCAL enable_nestloop = off")
            found = await _fetch(self._connection, asked)
            if not is_joined_freely:
                await self._connection.execute("SET LOCAL enable_nestloop = on")
        except Exception as error:  # noqa: BLE001  # Each reading that waits raises it.
            for answer in _unanswered(asked):
                answer.set_exception(error)
        else:
            for one, rows in zip(asked, found, strict=True):
                for answer in _unanswered([one]):
                    answer.set_result(rows)


async def gathered(readings: Iterable[Coroutine[Any, Any, A]]) -> list[A]:
    """Run readings at the same time, and return what each returned. When one fails, the others are cancelled and have ended."""
    every = [*readings]
    if len(every) == 1:
        return [await every[0]]
    tasks = [asyncio.create_task(one) for one in every]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await _ended(tasks)
        raise


async def _ended(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until these cancelled tasks have ended, also when what waits is cancelled meanwhile because another reading failed."""
    while pending := [task for task in tasks if not task.done()]:
        with suppress(asyncio.CancelledError):
            await asyncio.wait(pending)


def _unanswered(asked: Sequence[_Statement]) -> "list[asyncio.Future[list[Any]]]":
    return [answer for query in asked for answer in query.answers if not answer.done()]


async def _fetch(connection: Connection, asked: Sequence[_Statement]) -> Sequence[list[Any]]:
    if len(asked) == 1:
        return [await connection.fetch(asked[0].sql, *asked[0].values)]
    values = [value for query in asked for value in query.values]
    return _apart(await connection.fetch(combined(asked), *values), len(asked))


def combined(asked: Sequence[_Statement]) -> str:
    """Return the SQL whose rows have the columns of all statements side by side, each after one that says that it has a row."""
    parts, before = list[str](), 0
    for number, one in enumerate(asked):
        sql = _VALUE.sub(lambda found, before=before: f"${int(found[1]) + before}", one.sql)  # type: ignore[misc]
        parts.append(
            f'(SELECT row_number() OVER () AS "row number", TRUE AS "{_PART}{number}", rows.* FROM ({sql}) AS rows) AS part_{number}'
        )
        before += len(one.values)
    first, *others = parts
    joined = "".join(f'\n       FULL JOIN {other} USING ("row number")' for other in others)
    return f'SELECT *\n  FROM {first}{joined}\nORDER BY "row number"'


def _apart(rows: Sequence[Record], parts: int) -> list[list[Row]]:
    found: list[list[Row]] = [[] for _ in range(parts)]
    if not rows:
        return found
    names = tuple(rows[0].keys())
    places = [names.index(f"{_PART}{number}") for number in range(parts)]
    for rows_of, place, end in zip(found, places, (*places[1:], len(names)), strict=True):
        named = _row_type(names[place + 1 : end])
        # Those of a part are the first, as they are joined by their numbers; another part may have many thousands.
        rows_of += [named(row[place + 1 : end]) for row in takewhile(itemgetter(place), rows)]
    return found


@lru_cache(maxsize=1_000)
def _row_type(names: tuple[str, ...]) -> type[Row]:
    return type("NamedRow", (Row,), {"names": names, "__slots__": ()})
