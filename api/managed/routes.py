"""Routes of what is managed: list, get, make, change and delete, each as its form does, and audited alike."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.auth import project_key
from api.current import actor, services
from api.managed.kind import At, Kind, R
from api.managed.kinds import KINDS
from api.managed.of_projects import PROJECTS
from api.operation import Answer, Content, Operation, documents
from api.reply import Reply, reply
from api.sent import sent_as
from runtally.access.erasure import Places, erase_project
from runtally.access.scopes import Scope, demand
from runtally.errors import (
    Conflict,
    Forbidden,
    InvalidJson,
    InvalidPayload,
    NotFound,
    StoreUnavailable,
)
from runtally.fields import camel
from runtally.pricing.entries import lock

blueprint = Blueprint("managed", __name__, url_prefix="/api")


class ManagedQuery(msgspec.Struct, frozen=True, rename=camel):
    """Whose things are asked for."""

    project_id: (
        Annotated[str, Meta(max_length=128, description="Only this project's. Else the key's; with an admin key all.")]
        | None
    ) = None


class ManagedPath(msgspec.Struct, frozen=True):
    """One of the things."""

    id: Annotated[str, Meta(description="Its `id`.")]


class ManagedHeaders(msgspec.Struct, frozen=True):
    """What a change is made of."""

    if_match: Annotated[
        str | None, Meta(description="The `version` that is to be changed; another one there now is a `conflict`.")
    ] = msgspec.field(default=None, name="If-Match")
    idempotency_key: Annotated[
        str | None,
        Meta(description="Taken, and not needed: to make again what is there, with the same values, makes nothing."),
    ] = msgspec.field(default=None, name="Idempotency-Key")


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """What was deleted."""

    ok: Literal[True] = True
    id: str


_READING = (Forbidden, NotFound, StoreUnavailable)
_CHANGING = (*_READING, InvalidJson, InvalidPayload, Conflict)


async def read_all(at: At, kind: Kind[R], project_ids: list[str] | None) -> list[R]:
    """List those of these projects; with None those of all, and what belongs to none."""
    if project_ids is None:
        project_ids = ["", *(one.id for one in await services().cells.list_projects())]
    return [one for project_id in project_ids for one in (await kind.stored(at, project_id)).values()]


def asked_projects(kind: Kind[R]) -> list[str] | None:
    """Return the projects that the request is about; None for all. Raises `Forbidden`."""
    asked = request.args.get("projectId", actor().project_id)
    if asked is None:
        demand(actor(), Scope.ADMIN, None)
        return None
    kind.demand(actor(), asked)
    return [asked]


async def _list(kind: Kind[R]) -> Reply:
    projects = asked_projects(kind)
    async with At.opened(services(), actor()) as at:
        return reply({"ok": True, kind.name: await read_all(at, kind, projects)})


async def _get(kind: Kind[R], id_: str) -> Reply:
    projects = asked_projects(kind)
    async with At.opened(services(), actor()) as at:
        return _answer(await _found(at, kind, projects, id_))


async def _make(kind: Kind[R]) -> Reply:
    sent = await sent_as(kind.type)
    async with At.opened(services(), actor()) as at:
        one, before = await _compared(at, kind, sent)
        if before is None:
            return await _stored(at, kind, one, None, 201)
        if before.version == kind.stamped(one).version:
            return _answer(before)
        raise _conflict(before)


async def _change(kind: Kind[R], id_: str) -> Reply:
    sent = await sent_as(kind.type)
    projects = [kind.project_of(sent)]
    async with At.opened(services(), actor()) as at:
        one, before = await _compared(at, kind, sent)
        if before is None or before.id != id_:
            await _found(at, kind, projects, id_)
            names = ", ".join(map(camel, kind.key))
            raise InvalidPayload(f"{names} say which one it is and are not changed: delete it, and make another.")
        _demand_version(before)
        return await _stored(at, kind, one, before, 200)


async def _delete(kind: Kind[R], id_: str) -> Reply:
    projects = asked_projects(kind)
    async with At.opened(services(), actor()) as at:
        await lock(at.control)
        one = await _found(at, kind, projects, id_)
        _demand_version(one)
        if kind.remove is not None:
            await kind.remove(at, one)
    if kind is PROJECTS:
        # In transactions of its own, because it also deletes what is reported and archived.
        demand(actor(), Scope.ADMIN, None)
        cell = services().cells.of(kind.project_of(one))
        places = Places(services().control.database, cell.database, cell.reporting.database, cell.archive)
        await erase_project(places, actor(), kind.project_of(one))
    return reply(Deleted(id=id_))


async def _compared(at: At, kind: Kind[R], sent: R) -> tuple[R, R | None]:
    """Return what was sent as it would be stored, and what is there now. Until the transaction ends nobody else changes it."""
    kind.demand(at.by, kind.project_of(sent))
    await lock(at.control)
    known = await kind.stored(at, kind.project_of(sent))
    one = kind.normalised(at, sent, known)
    return one, known.get(kind.key_of(one))


async def _stored(at: At, kind: Kind[R], one: R, before: R | None, status: int) -> Reply:
    secret = await kind.store(at, one, before)
    after = (await kind.stored(at, kind.project_of(one)))[kind.key_of(one)]
    return _answer(msgspec.structs.replace(after, secret=secret) if secret else after, status)


async def _found(at: At, kind: Kind[R], projects: list[str] | None, id_: str) -> R:
    for one in await read_all(at, kind, projects):
        if one.id == id_:
            return one
    raise NotFound(f"There is no such thing; GET /api/{kind.name} lists all.")


def _answer(one: R, status: int = 200) -> Reply:
    answered = reply(one, status)
    answered.headers["ETag"] = f'"{one.version}"'
    return answered


def _demand_version(before: R) -> None:
    asked = request.headers.get("If-Match", "*").strip()
    if asked != "*" and before.version not in asked:
        raise _conflict(before)


def _conflict(before: R) -> Conflict:
    error = Conflict()
    error.current = before
    return error


def _serve(kind: Kind[Any]) -> None:
    """Add the routes of a kind."""
    of = Content((kind.type,))
    listed = msgspec.defstruct(
        f"{kind.type.__name__}s",
        [("ok", Literal[True], True), (kind.name, list[kind.type], msgspec.field(default_factory=list))],  # type: ignore[name-defined]
        frozen=True,
        kw_only=True,
    )
    listed.__doc__ = "Those that there are."
    one, path = f"/{kind.name}", f"/{kind.name}/<id>"

    async def list_all() -> ResponseReturnValue:
        return await _list(kind)

    async def get(id: str) -> ResponseReturnValue:  # noqa: A002  # As the path calls it.
        return await _get(kind, id)

    async def make() -> ResponseReturnValue:
        return await _make(kind)

    async def change(id: str) -> ResponseReturnValue:  # noqa: A002  # As the path calls it.
        return await _change(kind, id)

    async def delete(id: str) -> ResponseReturnValue:  # noqa: A002  # As the path calls it.
        return await _delete(kind, id)

    def serve(
        method: str,
        rule: str,
        view: Callable[..., Awaitable[ResponseReturnValue]],
        summary: str,
        answers: Mapping[int, Answer],
        **takes: Any,  # noqa: ANN401  # Further parts of an operation.
    ) -> None:
        raises = _READING if method == "GET" else _CHANGING
        operation = Operation(tag="Management", answers=answers, raises=raises, **takes)
        view.__name__ = f"{view.__name__}_{kind.words.replace(' ', '_')}"
        view.__doc__ = f"{summary}\n\nNeeds a key with the scope {kind.scope}, or an admin key."
        blueprint.add_url_rule(rule, view_func=project_key(documents(operation)(view)), methods=[method])

    found, words, headers = {200: Answer("It, with its version.", (of,))}, kind.words, {"headers": ManagedHeaders}
    serve("GET", one, list_all, f"List {words}.", {200: Answer("Them.", (Content((listed,)),))}, query=ManagedQuery)
    serve("GET", path, get, f"Get one of {words}.", found, path=ManagedPath, query=ManagedQuery)
    made = {200: Answer("It was there already.", (of,)), 201: Answer("It was made.", (of,))}
    serve("POST", one, make, f"Make one of {words}.", made, body=of, **headers)
    said = f"Change one of {words}; a field that is left out gets its default."
    serve("PUT", path, change, said, found, path=ManagedPath, body=of, **headers)
    if kind.remove is not None or kind is PROJECTS:
        said = f"Delete one of {words}{' with all of its runs, which needs an admin key' if kind is PROJECTS else ''}."
        gone = {200: Answer("It was deleted.", (Content((Deleted,)),))}
        serve("DELETE", path, delete, said, gone, path=ManagedPath, query=ManagedQuery, **headers)


for _kind in KINDS:
    _serve(_kind)
