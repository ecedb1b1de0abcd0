"""What is stored apart from runs: keys, shared links, prices and discounts."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from api.managed.kind import At, Kind, Known, Moment, OfAll, ProjectId, Resource, of_row
from runtally.access import keys, shared_links
from runtally.access.keys import is_active
from runtally.access.scopes import Scope, parse_scopes
from runtally.errors import Detail, InvalidName, InvalidPrice, InvalidScope
from runtally.fields import camel, trimmed
from runtally.models.price import AMOUNT_COLUMNS, PriceSource, ProjectDiscount
from runtally.pricing import discounts, entries
from runtally.pricing.draft import FIELDS, Draft, as_text, read_draft
from runtally.pricing.providers import provider_key


class ManagedKey(Resource, frozen=True, kw_only=True):
    """An active key, by its name. It is made once, and not changed: another name is another key."""

    project_id: Annotated[str, Meta(max_length=128, description="Project; empty for an admin key.")]
    name: Annotated[str, Meta(max_length=80, description="The start of a key that has no name.")]
    scopes: tuple[str, ...]
    expires_at: Annotated[Moment | None, Meta(description="null for never.")] = None


class ManagedLink(Resource, frozen=True, kw_only=True):
    """A shared link of a project, by its name. It is made once, and not changed."""

    project_id: ProjectId
    name: Annotated[str, Meta(max_length=128)]
    expires_at: Annotated[Moment | None, Meta(description="null for never.")] = None


class ManagedDiscount(Resource, frozen=True, kw_only=True):
    """What a project pays less. One that has begun is ended, not changed."""

    project_id: ProjectId
    provider: Annotated[str, Meta(description="Empty for all providers.")] = ""
    percent: Annotated[Decimal, Meta(description="Above 0, up to 100.")]
    effective_from: Annotated[Moment | None, Meta(description="null for always.")] = None
    effective_to: Annotated[Moment | None, Meta(description="null for no end.")] = None
    note: str | None = None


_AMOUNTS = [(name, Decimal | None, None) for name in AMOUNT_COLUMNS]
ManagedPrice: Any = msgspec.defstruct(
    "ManagedPrice",
    [
        ("project_id", OfAll, ""),
        ("provider", str),
        ("model", str),
        ("aliases", tuple[str, ...], ()),
        ("match", Annotated[str, Meta(description="exact, prefix or regex.")], "exact"),
        ("pattern", str | None, None),
        ("above_input_tokens", Annotated[int, Meta(description="For runs with more input tokens.")], 0),
        *_AMOUNTS,
        ("unit_rates", Annotated[str, Meta(description="Of further units, as the form has them.")] | None, None),
        ("variants", Annotated[str, Meta(description="Of tiers and regions, as the form has them.")] | None, None),
        ("effective_from", Moment | None, None),
        ("effective_to", Moment | None, None),
        ("estimated", bool, False),
        ("note", str | None, None),
    ],
    bases=(Resource,),
    frozen=True,
    kw_only=True,
    rename=camel,
    forbid_unknown_fields=True,
)
ManagedPrice.__doc__ = "A price that was entered, or corrected, by hand. Amounts are US dollars."


Named = TypeVar("Named", ManagedKey, ManagedLink)


async def _keys(at: At, project_id: str) -> list[ManagedKey]:
    found = await (keys.of_project(at.control, project_id) if project_id else keys.list_all(at.control))
    return [
        of_row(ManagedKey, one, project_id=project_id, name=one.name or one.prefix)
        # The newest last, by which one that was rotated is known.
        for one in reversed(found)
        if is_active(one, at.now) and (one.project_id or "") == project_id
    ]


async def _save_key(at: At, sent: ManagedKey, before: ManagedKey | None) -> str | None:
    if before is not None:
        raise InvalidScope("A key is not changed: give another one another name, and delete this one.")
    lifetime = _lifetime(at, sent.expires_at)
    scopes, project_id = parse_scopes(sent.scopes), sent.project_id or None
    issued = keys.issue(
        at.control, at.now, at.by, project_id=project_id, scopes=scopes, name=sent.name, lifetime=lifetime
    )
    return issued.secret


async def _revoke(at: At, one: ManagedKey) -> None:
    for key in await keys.list_all(at.control):
        if (key.project_id or "", key.name or key.prefix) == (one.project_id, one.name):
            keys.revoke(at.control, at.now, at.by, key)


def _normal_name(_at: At, sent: Named, _known: Known) -> Named:
    name = sent.name.strip()
    if not name:
        raise InvalidName("Give it a name.", details=(Detail("name", "Give it a name."),))
    return msgspec.structs.replace(sent, project_id=trimmed(sent.project_id), name=name)


def _lifetime(at: At, end: datetime | None) -> timedelta | None:
    """Raises `InvalidName` for an end that is over."""
    if end is not None and end <= at.now:
        why = "Choose a time to come."
        raise InvalidName(why, details=(Detail("expires_at", why),))
    return end - at.now if end else None


async def _links(at: At, project_id: str) -> list[ManagedLink]:
    found = await shared_links.list_links(at.control, project_id) if project_id else ()
    return [of_row(ManagedLink, one) for one in reversed(found)]


async def _save_link(at: At, sent: ManagedLink, before: ManagedLink | None) -> str:
    if before is not None:
        raise InvalidName("A link is not changed: give another one another name, and delete this one.")
    made = await shared_links.create(
        at.control,
        at.now,
        at.by,
        project_id=sent.project_id,
        name=sent.name,
        lifetime=_lifetime(at, sent.expires_at),
        password_hash=None,
    )
    return f"{at.services.settings.public_url or ''}/shared/{made.token}"


async def _remove_link(at: At, one: ManagedLink) -> None:
    for link in await shared_links.list_links(at.control, one.project_id):
        if link.name == one.name:
            await shared_links.remove(at.control, at.by, one.project_id, link.id)


async def _current_discounts(at: At, project_id: str) -> list[ProjectDiscount]:
    found = await discounts.list_of_project(at.control, project_id) if project_id else ()
    return [one for one in found if one.effective_to is None or one.effective_to > at.now]


async def _discounts(at: At, project_id: str) -> list[ManagedDiscount]:
    found = await _current_discounts(at, project_id)
    return [of_row(ManagedDiscount, one, provider=one.provider or "") for one in found]


async def _save_discount(at: At, sent: ManagedDiscount, before: ManagedDiscount | None) -> None:
    if before is not None:
        if before.effective_from is None or before.effective_from <= at.now:
            raise InvalidPrice("A discount that has begun is not changed: delete it, which ends it, and add another.")
        await _end_discount(at, before)
    values = {name: getattr(sent, name) for name in discounts.SHOWN}
    texts = {name: "" if value is None else str(value) for name, value in values.items()}
    await discounts.add(at.control, at.by, sent.project_id, texts, at.now)


async def _end_discount(at: At, one: ManagedDiscount) -> None:
    for row in await _current_discounts(at, one.project_id):
        if row.id is not None and (row.provider or "", row.effective_from) == (one.provider, one.effective_from):
            await discounts.end(at.control, at.by, row.id, at.now)


def _normal_discount(_at: At, sent: ManagedDiscount, _known: Known) -> ManagedDiscount:
    provider, note = provider_key(sent.provider) if sent.provider.strip() else "", (sent.note or "").strip() or None
    return msgspec.structs.replace(sent, project_id=trimmed(sent.project_id), provider=provider, note=note)


def _price(draft: object) -> Any:  # noqa: ANN401  # The struct is made of columns.
    """Return a price of a draft, or of a row."""
    texts = {name: getattr(draft, name) for name in ("provider", "match", "project_id")}
    of = {"provider": provider_key(texts["provider"]), "match": str(texts["match"])}
    return of_row(ManagedPrice, draft, project_id=texts["project_id"] or "", **of)


def _draft(sent: Any) -> Draft:  # noqa: ANN401  # As above.
    """Raises `InvalidPrice`."""
    return read_draft({name: as_text(getattr(sent, name)) for name in FIELDS})


async def _prices(at: At, project_id: str) -> list[Any]:
    found = await entries.list_current(at.control, project_id or None)
    return [_price(one) for one in found if one.source == PriceSource.ADMIN]


async def _save_price(at: At, sent: Any, _before: Any) -> None:  # noqa: ANN401  # As above.
    for row in await entries.list_current(at.control, sent.project_id or None):
        # One of the catalogue as well, which is then ours.
        if PRICES.key_of(_price(row)) == PRICES.key_of(sent):
            await entries.change(at.control, at.by, row, _draft(sent), at.now)
            return
    await entries.add(at.control, at.by, _draft(sent), at.now)


async def _withdraw(at: At, one: Any) -> None:  # noqa: ANN401  # As above.
    for row in await entries.list_current(at.control, one.project_id or None):
        if PRICES.key_of(_price(row)) == PRICES.key_of(one):
            await entries.withdraw(at.control, at.by, row, at.now)


KEYS = Kind(
    "keys",
    ManagedKey,
    ("project_id", "name"),
    Scope.ADMIN,
    _keys,
    _save_key,
    _revoke,
    _normal_name,
)
LINKS = Kind(
    "links",
    ManagedLink,
    ("project_id", "name"),
    Scope.PROJECT_WRITE,
    _links,
    _save_link,
    _remove_link,
    _normal_name,
)
DISCOUNTS = Kind(
    "discounts",
    ManagedDiscount,
    ("project_id", "provider", "effective_from"),
    Scope.ADMIN,
    _discounts,
    _save_discount,
    _end_discount,
    _normal_discount,
)
PRICES: Kind[Any] = Kind(
    "prices",
    ManagedPrice,
    ("project_id", "provider", "model", "match", "pattern", "above_input_tokens", "effective_from"),
    Scope.ADMIN,
    _prices,
    _save_price,
    _withdraw,
    lambda _at, sent, _known: _price(_draft(sent)),
)
