"""/api/config: everything that is managed as one document, applied whole or not at all."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.auth import project_key
from api.current import actor, services
from api.errors import status_of
from api.managed.kind import At, Key, R, Resource
from api.managed.routes import KINDS, ManagedListQuery, NextAfter, read_page
from api.operation import Answer, Content, Operation, documents
from api.reply import Success, reply
from api.sent import decoded, sent_as
from runtally.access.scopes import may
from runtally.errors import Detail, Forbidden, InvalidJson, InvalidPayload, RuntallyError, StoreUnavailable
from runtally.fields import camel, trimmed
from runtally.pricing.entries import lock

blueprint = Blueprint("config", __name__, url_prefix="/api/config")

Configuration = msgspec.defstruct(
    "Configuration",
    [(kind.kind, list[kind], msgspec.field(default_factory=list)) for kind in KINDS],  # type: ignore[valid-type]
    frozen=True,
)
Configuration.__doc__ = "Everything that is managed, by kind."


class SentConfiguration(msgspec.Struct, frozen=True, kw_only=True, rename=camel, forbid_unknown_fields=True):
    """A configuration to apply."""

    resources: Annotated[Configuration, Meta(description="What there is to be.")]  # type: ignore[valid-type]
    prune: Annotated[
        tuple[str, ...],
        Meta(description="Kinds of which is deleted what the document leaves out, in the projects that it names."),
    ] = ()
    dry_run: Annotated[bool, Meta(description="Answer what would change, and change nothing.")] = False


class ChangedThing(msgspec.Struct, frozen=True, kw_only=True):
    """A thing that is made, changed or deleted."""

    action: Literal["make", "change", "delete"]
    kind: str
    what: Annotated[dict[str, Any], Meta(description="The fields that say which one it is.")]
    before: Annotated[dict[str, Any], Meta(description="The fields that change, as they were.")]
    after: Annotated[dict[str, Any], Meta(description="The fields that change, as they are.")]
    secret: Annotated[str, Meta(description="A key, link or signing secret, this once.")] | UnsetType = UNSET


class AppliedConfiguration(Success, frozen=True, kw_only=True):
    """What applying changed, or would change."""

    changes: tuple[ChangedThing, ...]
    unchanged: Annotated[int, Meta(description="How many things of the document were as it says.")]


class ExportedConfiguration(Success, frozen=True, kw_only=True, rename=camel):
    """Everything that is managed, to be applied as it is; fields that have their default are left out."""

    resources: Annotated[Configuration, Meta(description="By kind.")]  # type: ignore[valid-type]
    next_after: NextAfter


class _Document(msgspec.Struct, frozen=True, kw_only=True, rename=camel, forbid_unknown_fields=True):
    """A configuration whose things are decoded one by one, so that each that is wrong is named."""

    resources: dict[str, list[msgspec.Raw]]
    prune: tuple[str, ...] = ()
    dry_run: bool = False


class _UndoneError(Exception):
    """Ends the transaction of a dry run."""


APPLY = Operation(
    tag="Management",
    body=Content((SentConfiguration,)),
    answers={200: Answer("It was applied, or with dryRun it could be.", (Content((AppliedConfiguration,)),))},
    raises=(Forbidden, InvalidJson, InvalidPayload, StoreUnavailable),
)
EXPORT = Operation(
    tag="Management",
    query=ManagedListQuery,
    answers={200: Answer("The configuration.", (Content((ExportedConfiguration,)),))},
    raises=(Forbidden, InvalidPayload, StoreUnavailable),
)


@blueprint.post("")
@project_key
@documents(APPLY)
async def apply_config() -> ResponseReturnValue:
    """Make and change things until they are as the document says, all or none, and answer what changed.

    Each thing needs the scope of its kind, or an admin key. Applying a document again changes nothing. Two that are applied at once
    are applied one after the other. A refusal names each thing that is wrong by its place, such as `budgets[3].amountUSD`.
    """
    document = _known(await sent_as(_Document))
    applied = AppliedConfiguration(changes=(), unchanged=0)
    with suppress(_UndoneError):
        async with At.opened(services(), actor()) as at:
            await lock(at.control)
            applied = await _applied(at, document)
            if document.dry_run:
                raise _UndoneError
    return reply(applied)


@blueprint.get("")
@project_key
@documents(EXPORT)
async def export_config() -> ResponseReturnValue:
    """Answer everything that is managed, without secrets, page by page: of each kind that the key's scopes allow."""
    asked = request.args.get("projectId", actor().project_id)
    kinds = [kind for kind in KINDS if may(actor(), kind.scope, asked or None)]
    if not kinds:
        raise Forbidden
    async with At.opened(services(), actor()) as at:
        page, after = await read_page(at, kinds, None if asked is None else [asked])
    by_kind = {kind: [one.written() for one in of] for kind, of in groupby(page, lambda one: one.kind)}
    return reply({"ok": True, "resources": by_kind, "nextAfter": after})


def _known(document: _Document) -> _Document:
    """Return a document of kinds that there are. Raises `InvalidPayload`."""
    known = {kind.kind: kind for kind in KINDS}
    prunable = [name for name, kind in known.items() if kind.may_be_pruned]
    wrong = [Detail(name, f"Use one of {', '.join(known)}.") for name in document.resources if name not in known]
    wrong += [Detail("prune", f"Use one of {', '.join(prunable)}.") for name in document.prune if name not in prunable]
    if wrong:
        raise InvalidPayload("There is no such kind; nothing was changed.", details=tuple(wrong))
    return document


class _Applying:
    """Applies the things of a document one after the other, and collects what is wrong with each."""

    def __init__(self, at: At) -> None:
        self.at = at
        self.wrong = list[Detail]()
        self.changes = list[ChangedThing]()
        self.unchanged = 0

    async def of_project(self, kind: type[R], project_id: str, sent: Sequence[tuple[str, R]], *, prunes: bool) -> None:
        """Apply those of a kind that belong to one project."""
        before = await kind.stored(self.at, project_id)
        secrets, kept = dict[Key, str](), set[Key]()
        for place, thing in sent:
            try:
                kind.demand(self.at.by, project_id)
                one = thing.normalised(self.at, before)
                key = one.which
                if key in kept:
                    raise InvalidPayload("It is in the document twice.")
                kept.add(key)
                if key not in before or before[key].version != one.stamped().version:
                    secret = await one.store(self.at, before.get(key))
                    secrets |= {key: secret} if secret else {}
            except RuntallyError as error:
                if status_of(error) >= 500:  # noqa: PLR2004  # Nothing of the document is wrong.
                    raise
                self.wrong += _placed(error, place)
        if prunes and not self.wrong:
            kind.demand(self.at.by, project_id)
            for key in before.keys() - kept:
                await before[key].remove(self.at)
        await self.at.flush()
        after = await kind.stored(self.at, project_id)
        changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        self.changes += [_changed(before.get(key), after.get(key), secrets.get(key)) for key in changed]
        self.unchanged += len(kept.difference(changed))


async def _applied(at: At, document: _Document) -> AppliedConfiguration:
    """Raises `InvalidPayload` with everything that is wrong."""
    applying, things = _Applying(at), dict[str, dict[str, list[tuple[str, Any]]]]()
    for kind in KINDS:
        by_project = things.setdefault(kind.kind, {})
        for number, raw in enumerate(document.resources.get(kind.kind, ())):
            place = f"{kind.kind}[{number}]"
            try:
                one = decoded(raw, kind)
            except InvalidPayload as error:
                applying.wrong += _placed(error, place)
            else:
                by_project.setdefault(trimmed(one.project_id), []).append((place, one))
    named = {project_id for by_project in things.values() for project_id in by_project}
    for kind in KINDS if not applying.wrong else ():
        prunes, by_project = kind.kind in document.prune, things[kind.kind]
        for project_id in sorted(named if prunes else by_project):
            await applying.of_project(kind, project_id, by_project.get(project_id, []), prunes=prunes)
    if applying.wrong:
        raise InvalidPayload(
            "Correct what details name and apply it again; nothing was changed.", details=tuple(applying.wrong)
        )
    return AppliedConfiguration(changes=tuple(applying.changes), unchanged=applying.unchanged)


def _placed(error: RuntallyError, place: str) -> Iterator[Detail]:
    """Yield what is wrong with a thing, by its place in the document."""
    for one in error.details or (Detail("", error.message),):
        yield Detail(f"{place}.{one.path}" if one.path else place, one.message)


def _changed(before: Resource | None, after: Resource | None, secret: str | None) -> ChangedThing:
    was, is_ = before.written() if before else {}, after.written() if after else {}
    one = after or before
    assert one is not None  # noqa: S101  # Of two that differ there is one.
    keys = {wire: value for wire, value in one.content().items() if wire in map(camel, one.keyed_by)}
    differing = [name for name in {**was, **is_} if was.get(name) != is_.get(name) and name not in keys]
    return ChangedThing(
        action="change" if was and is_ else "make" if is_ else "delete",
        kind=one.kind,
        what={name: value for name, value in keys.items() if value not in {"", None}},
        before={name: was[name] for name in differing if name in was},
        after={name: is_[name] for name in differing if name in is_},
        secret=secret or UNSET,
    )
