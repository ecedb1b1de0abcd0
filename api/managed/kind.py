"""A thing that the API manages: what it is made of, which one it is, and what its form does with it."""

import hashlib
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Self, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import projects, teams
from runtally.access.scopes import Scope, demand
from runtally.audit import Actor
from runtally.db.database import Database
from runtally.errors import Detail, RuntallyError, StoreUnavailable
from runtally.fields import camel, is_team, trimmed
from runtally.money import plain
from runtally.names import LiveNames
from runtally.services import Services

OfAll = Annotated[
    str, Meta(max_length=128, description="Project; `team::<id>` for a team, empty for all projects together.")
]
Moment = Annotated[datetime, Meta(tz=True)]
Key: TypeAlias = tuple[object, ...]
Place: TypeAlias = tuple[str, ...]


class At:
    """Sessions of control and of the cells of projects, committed together or not at all; who changes what, and when."""

    def __init__(self, services: Services, by: Actor, stack: AsyncExitStack) -> None:
        self.services = services
        self.by = by
        self.now = services.clock()
        self.names = set[LiveNames]()
        """The rules for names that change, which are in force here once they are committed."""
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
        # Committed: if they cannot be read now, the next pass of the job reads them.
        for name in at.names:
            with suppress(StoreUnavailable):
                await name.refresh()

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


class Resource(msgspec.Struct, frozen=True, kw_only=True, rename=camel, forbid_unknown_fields=True):
    """A thing that the API manages. Its class says of its kind what routes and files of configuration need."""

    kind: ClassVar[str]
    """The name of its kind in paths and files, such as `alertChannels`."""
    keyed_by: ClassVar[tuple[str, ...]]
    """The fields that say which one it is."""
    scope: ClassVar[Scope]
    form: ClassVar[Mapping[str, str]] = {}
    """Our names for the fields of its form, where they have others."""
    may_be_pruned: ClassVar[bool] = True
    is_of_teams: ClassVar[bool] = False
    """Whether teams have some too, in place of a project."""

    id: Annotated[str, Meta(description="Which one it is, for its path; ignored where it is sent.")] = ""
    version: Annotated[str, Meta(description="What If-Match takes; ignored where it is sent.")] = ""
    secret: (
        Annotated[str, Meta(description="A key, link or signing secret: in the answer that makes it, once.")]
        | UnsetType
    ) = UNSET
    project_id: Annotated[str, Meta(max_length=128, description="Project that it belongs to.")]

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        """List those of a project, or with a blank id those of none."""
        raise NotImplementedError

    async def save(self, at: At, before: Self | None) -> str | None:
        """Make or change one, which is stored already if `before` is; return the secret of one that was made, if it has one."""
        raise NotImplementedError

    async def remove(self, at: At) -> None:
        """Delete it, if its kind may be pruned."""

    def normal(self, at: At, known: Mapping[Key, Self]) -> Self:  # noqa: ARG002  # For kinds that ask.
        """Return it as it would be stored beside what is known."""
        return self

    @classmethod
    def words(cls) -> str:
        """Return the name of its kind as words: alert channels."""
        return re.sub("([A-Z])", r" \1", cls.kind).lower()

    @classmethod
    def of(cls, row: object, **others: object) -> Self:
        """Return the thing that a row is, whose fields have the names of its columns, but for these."""
        values = {name: getattr(row, name) for name in cls.__struct_fields__ if name not in _OURS | others.keys()}
        return cls(**{name: _of_column(value) for name, value in values.items()} | others)

    @classmethod
    async def stored(cls, at: At, project_id: str) -> dict[Key, Self]:
        """Return those of a project by their keys."""
        return {resource.which: resource.stamped() for resource in await cls.read(at, project_id)}

    @classmethod
    async def find(cls, at: At, project_id: str, id_: str) -> Self | None:
        """Return the one of a project with this id, if there is one."""
        return next((resource for resource in (await cls.stored(at, project_id)).values() if resource.id == id_), None)

    async def beside(self, at: At) -> dict[Key, Self]:
        """Return what is stored beside it, by their keys, and what is stored of itself: that alone where there are very many."""
        return await self.stored(at, self.project_id)

    @classmethod
    async def page(cls, at: At, project_id: str, after: Place | None, most: int) -> list[Self]:
        """List at most so many of a project, in the order of their places, from the one after a place on."""
        found = sorted((await cls.stored(at, project_id)).values(), key=lambda one: one.place)
        return [row for row in found if after is None or row.place > after][:most]

    @classmethod
    def demand(cls, by: Actor, project_id: str) -> None:
        """Raises `Forbidden` unless the actor may see and change those of a project."""
        demand(by, cls.scope, project_id or None)

    @classmethod
    def id_of(cls, which: Key) -> str:
        return _digest([cls.kind, *which])

    @property
    def which(self) -> Key:
        """The values of its key."""
        return tuple(getattr(self, name) for name in self.keyed_by)

    @property
    def place(self) -> Place:
        """Its place among those of its project: the further values of its key, as text."""
        return tuple("" if one is None else str(_plain(one)) for one in self.which[1:])

    def content(self) -> dict[str, object]:
        """Return what a sender decides, by its names on the wire."""
        fields = zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
        return {wire: getattr(self, name) for name, wire in fields if name not in _OURS}

    def written(self) -> dict[str, object]:
        """Return it as a file of configuration has it: without what is its default."""
        defaults = {field.encode_name: field.default for field in msgspec.structs.fields(self)}
        return {name: value for name, value in self.content().items() if value != defaults[name]}

    def stamped(self) -> Self:
        """Return it with its id and its version."""
        return self.replace(id=self.id_of(self.which), version=_digest(self.content()))

    def replace(self, **values: object) -> Self:
        return msgspec.structs.replace(self, **values)

    def normalised(self, at: At, known: Mapping[Key, Self]) -> Self:
        """Return it as it would be stored. Raises what its form is refused with, by our names."""
        with self._our_names():
            return self.replace(project_id=trimmed(self.project_id)).normal(at, known)

    async def store(self, at: At, before: Self | None) -> str | None:
        """Make or change one, and return the secret of a new one. Raises what its form is refused with, by our names."""
        with self._our_names():
            if self.is_of_teams and is_team(self.project_id):
                await teams.get(at.control, self.project_id)
            elif self.kind != "projects" and self.project_id:
                # Its form does the same: the project must be there, and nobody else changes what it has meanwhile.
                await projects.get(await at.cell(self.project_id), self.project_id, is_locked=True)
            secret = await self.save(at, before)
            await at.flush()
            return secret

    @contextmanager
    def _our_names(self) -> Iterator[None]:
        try:
            yield
        except RuntallyError as error:
            error.details = tuple(
                Detail(self.form.get(detail.path, camel(detail.path)), detail.message) for detail in error.details
            )
            raise


R = TypeVar("R", bound=Resource)
_OURS = frozenset({"id", "version", "secret", "is_unconfirmed"})
"""The fields that a sender does not decide."""


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
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return value
