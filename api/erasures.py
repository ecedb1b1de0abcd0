"""/api/erasures: erase a person, which counts first and deletes once it is started."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.auth import project_key
from api.current import actor, services
from api.metrics import Count
from api.operation import Answer, Content, Operation, documents
from api.reply import Success, answered, reply
from api.sent import sent_as
from runtally.access import erasures
from runtally.access.scopes import Scope, demand
from runtally.errors import Forbidden, InvalidErasure, InvalidJson, InvalidPayload, NotFound, StoreUnavailable
from runtally.fields import MAX_NAME, MAX_ROW, camel, parse_whole
from runtally.models.audit import Erasure, ErasureState

blueprint = Blueprint("erasures", __name__, url_prefix="/api/erasures")


class ErasedProject(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    """The runs of a person in one project."""

    project_id: str
    live: Annotated[Count, Meta(description="In the database.")]
    archived: Annotated[Count, Meta(description="In files of the archive.")]
    reported: Annotated[Count, Meta(description="In the reporting table.")]


class ErasureInfo(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    """An erasure and how far it is; it has no name."""

    id: Count
    label: Annotated[str, Meta(description="The hash of the name, which the audit log has too.")]
    state: Annotated[ErasureState, Meta(description="counted: start it to delete what was counted.")]
    projects: Annotated[Count, Meta(description="Projects when it began.")]
    seen: Annotated[Count, Meta(description="Projects that were counted or erased.")]
    found: Annotated[tuple[ErasedProject, ...], Meta(description="Projects with runs of the person.")]
    problem: Annotated[str | None, Meta(description="Why it waits.")]


class ErasureAnswer(Success, frozen=True, kw_only=True):
    """An erasure."""

    erasure: ErasureInfo


class SentErasure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose runs are to be erased."""

    user: Annotated[str, Meta(min_length=1, max_length=MAX_NAME, description="Name or hash, as runs have it.")]


class ErasurePath(msgspec.Struct, frozen=True):
    """An erasure."""

    erasure_id: Annotated[int, Meta(ge=1, le=MAX_ROW, description="The `id` of the erasure.")]


class ErasureActPath(ErasurePath, frozen=True):
    """An erasure and what to do with it."""

    act: Annotated[Literal["start", "cancel"], Meta(description="start: delete, for good.")]


STATES = {"start": ErasureState.ERASING, "cancel": ErasureState.CANCELLED}
_ONE = {
    "id": 1, "label": "user 7f3a9c2e51d04b66", "state": "counted", "projects": 12, "seen": 12, "problem": None,
    "found": [{"projectId": "support-agent", "live": 40, "archived": 310, "reported": 350}],
}  # fmt: skip
_EXAMPLE = {"Counted": {"ok": True, "erasure": _ONE}}
POST_ERASURE = Operation(
    tag="Erasures",
    body=Content((SentErasure,), {"A user": {"user": "ann@example.com"}}),
    answers={201: Answer("The runs are being counted; nothing is deleted.", (Content((ErasureAnswer,), _EXAMPLE),))},
    raises=(Forbidden, InvalidJson, InvalidPayload, InvalidErasure, StoreUnavailable),
)
GET_ERASURE = Operation(
    tag="Erasures",
    path=ErasurePath,
    answers={200: Answer("How far it is.", (Content((ErasureAnswer,), _EXAMPLE),))},
    raises=(Forbidden, NotFound, StoreUnavailable),
)
MOVE_ERASURE = Operation(
    tag="Erasures",
    path=ErasureActPath,
    answers={200: Answer("It goes on, or was cancelled.", (Content((ErasureAnswer,), _EXAMPLE),))},
    raises=(Forbidden, NotFound, InvalidErasure, StoreUnavailable),
)


@blueprint.post("")
@project_key
@documents(POST_ERASURE)
async def post_erasure() -> ResponseReturnValue:
    """Count all runs of a user in every project, to erase them then. Needs an admin key.

    Ask for it until its `state` is `counted`, then start it.
    """
    demand(actor(), Scope.ADMIN, None)
    sent = await sent_as(SentErasure)
    return reply(ErasureAnswer(erasure=info(await planned(sent.user))), 201)


@blueprint.get("/<erasure_id>")
@project_key
@documents(GET_ERASURE)
async def get_erasure(erasure_id: str) -> ResponseReturnValue:
    """Say how far an erasure is, and how many runs it counted or erased. Needs an admin key."""
    demand(actor(), Scope.ADMIN, None)
    async with services().control.database.session() as session:
        return reply(ErasureAnswer(erasure=info(await erasures.get(session, _id(erasure_id)))))


@blueprint.post("/<erasure_id>/<act>")
@project_key
@documents(MOVE_ERASURE)
async def move_erasure(erasure_id: str, act: str) -> ResponseReturnValue:
    """Start an erasure that was counted, for good, or cancel one. Needs an admin key.

    They leave the database, sums, queues, the reporting table and the archive. A project that is erased already stays so.
    """
    demand(actor(), Scope.ADMIN, None)
    if act not in STATES:
        raise NotFound("An erasure can be started or cancelled: end the path with start or cancel.")
    async with services().control.database.session() as session:
        moved = await erasures.move(session, actor(), _id(erasure_id), STATES[act], services().clock())
        return reply(ErasureAnswer(erasure=info(moved)))


def _id(text: str) -> int:
    number = parse_whole(text, MAX_ROW)
    if number is None:
        raise NotFound(erasures.UNKNOWN)
    return number


async def planned(user: str) -> Erasure:
    """Begin to count the runs of a user. Raises `InvalidErasure`."""
    names = erasures.names_of(user, services().names)
    projects = len(await services().cells.list_projects())
    async with services().control.database.session() as session:
        return await erasures.plan(session, actor(), names, projects, services().clock())


def info(erasure: Erasure) -> ErasureInfo:
    """Describe an erasure."""
    found = ({**each, "projectId": each["project"]} for each in erasure.found)
    return answered(ErasureInfo, erasure, found=tuple(msgspec.convert(each, ErasedProject) for each in found))
