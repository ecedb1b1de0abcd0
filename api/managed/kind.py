"""A kind of thing that the API manages: what it is made of, which one it is, and the functions of its forms."""

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import projects
from runtally.access.scopes import Scope, demand
from runtally.audit import Actor
from runtally.db.database import Database
from runtally.errors import Detail, RuntallyError
from runtally.fields import camel
from runtally.money import plain
from runtally.services import Services

ProjectId = Annotated[str, Meta(max_length=128, description="Project that it belongs to.")]
OfAll = Annotated[str, Meta(max_length=128, description="Project; empty for all projects together.")]
Moment = Annotated[datetime, Meta(tz=True)]


class Resource(msgspec.Struct, frozen=True, kw_only=True, rename=camel, forbid_unknown_fields=True):
    """A thing that the API manages."""

    id: Annotated[str, Meta(description="Which one it is, for its path; ignored where it is sent.")] = ""
    version: Annotated[str, Meta(description="What If-Match takes; ignored where it is sent.")] = ""
    secret: (
        Annotated[str, Meta(description="A key, link or signing secret: in the answer that makes it, once.")]
        | UnsetType
    ) = UNSET


R = TypeVar("R", bound=Resource)
Known: TypeAlias = Mapping[tuple[object, ...], Resource]
_OURS = frozenset({"id", "version", "secret"})


class At:
    """Sessions of control and of the cells of projects, committed together or not at all; who changes what, and when."""

    def __init__(self, services: Services, by: Actor, stack: AsyncExitStack) -> None:
        self.services = services
        self.by = by
        self.now = services.clock()
        self._stack = stack
        self._sessions: list[tuple[Database, AsyncSession]] = []

    @classmethod
    @asynccontextmanager
    async def opened(cls, services: Services, by: Actor) -> AsyncIterator["At"]:
        """Open a session of control; those of cells follow when they are needed, and are committed first."""
        async with AsyncExitStack() as stack:
            at = cls(services, by, stack)
            await at._session(services.control.database)
            yield at

    @property
    def control(self) -> AsyncSession:
        return self._sessions[0][1]

    async def cell(self, project_id: str) -> AsyncSession:
        """Return the session of the cell that a project is in, or would be."""
        cells = self.services.cells
        name = await cells.directory.find(project_id) if cells.directory is not None and project_id else None
        return await self._session((cells.named(name) if name else cells.main).database)

    async def flush(self) -> None:
        for _, session in self._sessions:
            await session.flush()

    async def _session(self, database: Database) -> AsyncSession:
        for known, session in self._sessions:
            if known.is_same(database):
                return session
        session = await self._stack.enter_async_context(database.session())
        self._sessions.append((database, session))
        return session


@dataclass(frozen=True, slots=True)
class Kind(Generic[R]):
    """A kind: `read` lists those of a project, `save` makes or changes one, `remove` deletes it."""

    name: str
    """Its name in paths and files, such as `alertChannels`."""
    type: type[R]
    key: tuple[str, ...]
    """The fields that say which one it is."""
    scope: Scope
    read: Callable[[At, str], Awaitable[list[R]]]
    save: Callable[[At, R, R | None], Awaitable[str | None]]
    """Return the secret of one that was made, if it has one. With the one that is stored, where there is one."""
    remove: Callable[[At, R], Awaitable[None]] | None = None
    normal: Callable[[At, R, Known], R] = lambda _at, one, _known: one
    """Return it as it would be stored beside what is known, by their keys."""
    read_only: frozenset[str] = frozenset()
    """Fields that say what is there and are never sent."""
    form: Mapping[str, str] = field(default_factory=dict)
    """Our names for the fields of its form, where they have others."""

    @property
    def words(self) -> str:
        """Its name as words: alert channels."""
        return re.sub("([A-Z])", r" \1", self.name).lower()

    def key_of(self, one: R) -> tuple[object, ...]:
        return tuple(getattr(one, name) for name in self.key)

    def project_of(self, one: R) -> str:
        return getattr(one, "project_id", "")

    def content(self, one: R) -> dict[str, object]:
        """Return what a sender decides, by its names on the wire."""
        fields = zip(one.__struct_fields__, one.__struct_encode_fields__, strict=True)
        return {wire: getattr(one, name) for name, wire in fields if name not in _OURS | self.read_only}

    def written(self, one: R) -> dict[str, object]:
        """Return it as a file of configuration has it: without what is its default."""
        return {
            field.encode_name: value
            for field in msgspec.structs.fields(self.type)
            if field.name not in _OURS | self.read_only and (value := getattr(one, field.name)) != field.default
        }

    @property
    def key_fields(self) -> list[tuple[str, str]]:
        """Our names of the fields of the key, and those on the wire."""
        fields = zip(self.type.__struct_fields__, self.type.__struct_encode_fields__, strict=True)
        return [(name, wire) for name, wire in fields if name in self.key]

    def stamped(self, one: R) -> R:
        """Return it with its id and its version."""
        id_ = _digest([self.name, *self.key_of(one)])
        return msgspec.structs.replace(one, id=id_, version=_digest(self.content(one)))

    def demand(self, by: Actor, project_id: str) -> None:
        """Raises `Forbidden` unless the actor may see and change those of a project."""
        demand(by, self.scope, project_id or None)

    async def stored(self, at: At, project_id: str) -> dict[tuple[object, ...], R]:
        """Return those of a project by their keys."""
        return {self.key_of(one): self.stamped(one) for one in await self.read(at, project_id)}

    def normalised(self, at: At, sent: R, known: Known) -> R:
        """Return it as it would be stored. Raises what its form is refused with, by our names."""
        with self._our_names():
            return self.normal(at, sent, known)

    async def store(self, at: At, sent: R, before: R | None) -> str | None:
        """Make or change one, and return the secret of a new one. Raises what its form is refused with, by our names."""
        with self._our_names():
            if self.name != "projects" and self.project_of(sent):
                # As its form does: the project must be there, and nobody else changes what it has meanwhile.
                await projects.get(await at.cell(self.project_of(sent)), self.project_of(sent), is_locked=True)
            secret = await self.save(at, sent, before)
            await at.flush()
            return secret

    @contextmanager
    def _our_names(self) -> Iterator[None]:
        try:
            yield
        except RuntallyError as error:
            error.details = tuple(
                Detail(self.form.get(one.path, camel(one.path)), one.message) for one in error.details
            )
            raise


def of_row(kind: type[R], row: object, **others: object) -> R:
    """Return the thing that a row is, whose fields have the names of its columns, but for these."""
    values = {name: getattr(row, name) for name in set(kind.__struct_fields__) - _OURS - others.keys()}
    return kind(**{name: _of_column(one) for name, one in values.items()} | others)


def _of_column(value: Any) -> Any:  # noqa: ANN401  # What a column or a field can hold.
    """Return a value as structs have it, whose defaults cannot be lists, and amounts without the zeros of their column."""
    match value:
        case Decimal():
            return Decimal(plain(value))
        case list():
            return tuple(value)
        case _:
            return value


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(_plain(value))).hexdigest()[:16]


def _plain(value: Any) -> object:  # noqa: ANN401  # Any value of a resource.
    """Return a value so that what is equal is written alike."""
    match value:
        case Decimal():
            return plain(value)
        case datetime():
            return value.astimezone(UTC)
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case _:
            return value
