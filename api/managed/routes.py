"""Routes of what is managed: list, get, make, change and delete, each as its form does, and audited alike."""

import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.auth import project_key
from api.current import actor, services
from api.managed.kind import At, Place, R, Resource
from api.managed.of_control import (
    ManagedDiscount,
    ManagedGroup,
    ManagedKey,
    ManagedLink,
    ManagedPrice,
    ManagedRate,
    ManagedTeam,
    ManagedUser,
)
from api.managed.of_projects import (
    ManagedAlertChannel,
    ManagedAlertRule,
    ManagedBudget,
    ManagedExperiment,
    ManagedNameRule,
    ManagedProject,
    ManagedTrackedKey,
)
from api.operation import Answer, Content, Operation, documents
from api.reply import Reply, Success, reply
from api.sent import asked_as, refuse_nul, sent_as
from runtally.access import teams
from runtally.access.erasure import Places, erase_project
from runtally.access.scopes import Scope, demand
from runtally.errors import (
    Conflict,
    Detail,
    Forbidden,
    InvalidJson,
    InvalidPayload,
    NotFound,
    StoreUnavailable,
)
from runtally.fields import camel, is_team
from runtally.pricing.entries import lock

blueprint = Blueprint("managed", __name__, url_prefix="/api")

KINDS: tuple[type[Resource], ...] = (
    ManagedTeam,
    ManagedProject,
    ManagedUser,
    ManagedGroup,
    ManagedKey,
    ManagedLink,
    ManagedPrice,
    ManagedDiscount,
    ManagedRate,
    ManagedNameRule,
    ManagedTrackedKey,
    ManagedBudget,
    ManagedAlertChannel,
    ManagedAlertRule,
    ManagedExperiment,
)
"""What is managed. A configuration is applied in this order, so that a key or a budget finds its project."""


MAX_LISTED = 1_000


class ManagedQuery(msgspec.Struct, frozen=True, rename=camel):
    """Whose things are asked for."""

    project_id: (
        Annotated[str, Meta(max_length=128, description="Only this project's. Else the key's; with an admin key all.")]
        | None
    ) = None


class ManagedListQuery(ManagedQuery, frozen=True, rename=camel):
    """Whose things are listed, and how many of them."""

    after: Annotated[str | None, Meta(description="`nextAfter` of the page before.")] = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED, description="Things on a page.")] = 500


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


class Deleted(Success, frozen=True, kw_only=True):
    """What was deleted."""

    id: str


_READING = (Forbidden, InvalidPayload, NotFound, StoreUnavailable)
_CHANGING = (*_READING, InvalidJson, Conflict)
NextAfter = Annotated[str | None, Meta(description="`after` of the next page; null on the last.")]


async def read_page(
    at: At, kinds: Sequence[type[Resource]], project_ids: list[str] | None
) -> tuple[list[Resource], str | None]:
    """Read the page that the request asks for: kind by kind, project by project; and where the next one begins.

    Raises `InvalidPayload`.
    """
    query = asked_as(ManagedListQuery)
    ids = sorted(await _all_projects(at)) if project_ids is None else project_ids
    kind_after, id_after, place = _parsed(kinds, query.after)
    found = list[Resource]()
    for number, kind in enumerate(kinds[kind_after:]):
        for id_ in ids:
            if (number == 0 and id_ < id_after) or (is_team(id_) and not kind.is_of_teams):
                continue
            after = place if number == 0 and id_ == id_after else None
            found += await kind.page(at, id_, after, query.limit + 1 - len(found))
            if len(found) > query.limit:
                last = found[query.limit - 1]
                token = msgspec.json.encode((last.kind, last.project_id, last.place))
                return found[: query.limit], base64.urlsafe_b64encode(token).decode().rstrip("=")
    return found, None


def _parsed(kinds: Sequence[type[Resource]], token: str | None) -> tuple[int, str, Place | None]:
    """Return where a page begins: the number of its kind, its project, and the place that it comes after."""
    if token is None:
        return 0, "", None
    try:
        packed = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        name, project_id, place = msgspec.json.decode(packed, type=tuple[str, str, Place])
        # Postgres stores no NUL.
        return [kind.kind for kind in kinds].index(name), project_id, tuple(one.replace("\0", "") for one in place)
    except (ValueError, msgspec.DecodeError):
        raise InvalidPayload(
            details=(Detail("after", "Send nextAfter of the page before, or leave it out."),)
        ) from None


async def _all_projects(at: At) -> list[str]:
    """Return the ids of all projects and teams, and a blank one."""
    of_teams = (one.id for one in await teams.list_all(at.control))
    return ["", *(project.id for project in await services().cells.list_projects()), *of_teams]


def asked_projects(kind: type[R]) -> list[str] | None:
    """Return the projects that the request is about; None for all. Raises `Forbidden` and `InvalidPayload`."""
    refuse_nul()
    asked = request.args.get("projectId", actor().project_id)
    if asked is None:
        demand(actor(), Scope.ADMIN, None)
        return None
    kind.demand(actor(), asked)
    return [asked]


async def _list_all(kind: type[R]) -> Reply:
    projects = asked_projects(kind)
    async with At.opened(services(), actor()) as at:
        page, after = await read_page(at, (kind,), projects)
    return reply({"ok": True, kind.kind: page, "nextAfter": after})


async def _get(kind: type[R], id_: str) -> Reply:
    projects = asked_projects(kind)
    async with At.opened(services(), actor()) as at:
        return _answer(await _found(at, kind, projects, id_))


async def _make(kind: type[R]) -> Reply:
    sent = await sent_as(kind)
    async with At.opened(services(), actor()) as at:
        one, before = await _compared(at, kind, sent)
        if before is None:
            return await _stored(at, one, None, 201)
        if before.version == one.stamped().version:
            return _answer(before)
        raise _conflict(before)


async def _change(kind: type[R], id_: str) -> Reply:
    sent = await sent_as(kind)
    async with At.opened(services(), actor()) as at:
        one, before = await _compared(at, kind, sent)
        if before is None or before.id != id_:
            await _found(at, kind, [sent.project_id], id_)
            names = ", ".join(map(camel, kind.keyed_by))
            raise InvalidPayload(f"{names} say which one it is and are not changed: delete it, and make another.")
        _demand_version(before)
        return await _stored(at, one, before, 200)


async def _delete(kind: type[R], id_: str) -> Reply:
    projects = asked_projects(kind)
    async with At.opened(services(), actor()) as at:
        await lock(at.control)
        one = await _found(at, kind, projects, id_)
        _demand_version(one)
        await one.remove(at)
    if isinstance(one, ManagedProject):
        # In transactions of its own, because it also deletes what is reported and archived.
        demand(actor(), Scope.ADMIN, None)
        cell = services().cells.for_project(one.project_id)
        places = Places(services().control.database, cell.database, cell.reporting.database, cell.archive)
        await erase_project(places, actor(), one.project_id)
    return reply(Deleted(id=id_))


async def _compared(at: At, kind: type[R], sent: R) -> tuple[R, R | None]:
    """Return what was sent as it would be stored, and what is there now. Until the transaction ends nobody else changes it."""
    kind.demand(at.by, sent.project_id)
    await lock(at.control)
    known = await sent.beside(at)
    one = sent.normalised(at, known)
    return one, known.get(one.which)


async def _stored(at: At, resource: R, before: R | None, status: int) -> Reply:
    secret = await resource.store(at, before)
    after = (await resource.beside(at))[resource.which]
    return _answer(after.replace(secret=secret) if secret else after, status)


async def _found(at: At, kind: type[R], projects: list[str] | None, id_: str) -> R:
    for project_id in await _all_projects(at) if projects is None else projects:
        if (found := await kind.find(at, project_id, id_)) is not None:
            return found
    raise NotFound(f"There is no such thing; GET /api/{kind.kind} lists all.")


def _answer(resource: R, status: int = 200) -> Reply:
    answered = reply(resource, status)
    answered.headers["ETag"] = f'"{resource.version}"'
    return answered


def _demand_version(before: R) -> None:
    asked = request.headers.get("If-Match", "*").strip()
    if asked != "*" and before.version not in asked:
        raise _conflict(before)


def _conflict(before: R) -> Conflict:
    error = Conflict()
    error.current = before
    return error


def _serve(kind: type[Resource]) -> None:
    """Add the routes of a kind."""
    of = Content((kind,))
    listed = msgspec.defstruct(
        f"{kind.__name__}s",
        [
            ("ok", Literal[True], True),
            (kind.kind, list[kind], msgspec.field(default_factory=list)),  # type: ignore[valid-type]
            ("next_after", NextAfter),
        ],
        frozen=True,
        kw_only=True,
        rename=camel,
    )
    listed.__doc__ = "A page of those that there are, by project and then by what says which one it is."
    one, path = f"/{kind.kind}", f"/{kind.kind}/<id>"

    def serve(
        method: str,
        rule: str,
        act: Callable[..., Awaitable[Reply]],
        summary: str,
        answers: Mapping[int, Answer],
        **takes: Any,  # noqa: ANN401  # Further parts of an operation.
    ) -> None:
        async def view(**path: str) -> ResponseReturnValue:
            return await act(kind, *path.values())

        raises = _READING if method == "GET" else _CHANGING
        operation = Operation(tag="Management", answers=answers, raises=raises, **takes)
        view.__name__ = f"{act.__name__.strip('_')}_{kind.words().replace(' ', '_')}"
        view.__doc__ = f"{summary}\n\nNeeds a key with the scope {kind.scope}, or an admin key."
        blueprint.add_url_rule(rule, view_func=project_key(documents(operation)(view)), methods=[method])

    found, words, headers = {200: Answer("It, with its version.", (of,))}, kind.words(), {"headers": ManagedHeaders}
    serve(
        "GET", one, _list_all, f"List {words}.", {200: Answer("Them.", (Content((listed,)),))}, query=ManagedListQuery
    )
    serve("GET", path, _get, f"Get one of {words}.", found, path=ManagedPath, query=ManagedQuery)
    made = {200: Answer("It was there already.", (of,)), 201: Answer("It was made.", (of,))}
    serve("POST", one, _make, f"Make one of {words}.", made, body=of, **headers)
    said = f"Change one of {words}; a field that is left out gets its default."
    serve("PUT", path, _change, said, found, path=ManagedPath, body=of, **headers)
    if kind.may_be_pruned or kind is ManagedProject:
        said = f"Delete one of {words}{' with all of its runs, which needs an admin key' if kind is ManagedProject else ''}."
        gone = {200: Answer("It was deleted.", (Content((Deleted,)),))}
        serve("DELETE", path, _delete, said, gone, path=ManagedPath, query=ManagedQuery, **headers)


for _kind in KINDS:
    _serve(_kind)
