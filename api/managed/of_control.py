"""What is stored apart from runs: teams, users, groups, keys, shared links, prices and discounts."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from msgspec import Meta, defstruct, field

from api.managed.kind import At, Key, Moment, OfAll, Resource
from runtally.access import identities, invitations, keys, shared_links, teams, users
from runtally.access.keys import is_active
from runtally.access.scopes import Grant, Scope, parse_scopes
from runtally.errors import Detail, InvalidName, InvalidPrice, InvalidScope
from runtally.fields import TEAM
from runtally.models.price import PriceEntry, PriceSource, ProjectDiscount
from runtally.models.user import Role
from runtally.money import plain
from runtally.pricing import currency, discounts, entries
from runtally.pricing.draft import FIELDS, Draft, as_text, read_draft
from runtally.pricing.providers import provider_key


class ManagedTeam(Resource, frozen=True, kw_only=True):
    """A team, which owns the projects that name it. Where others take a `projectId`, `team::` and its id stand for it."""

    kind = "teams"
    keyed_by = ("project_id", "team")
    scope = Scope.ADMIN

    project_id: Annotated[str, Meta(max_length=0, description="Always empty.")] = ""
    team: Annotated[str, Meta(max_length=teams.MAX_ID, description="Its id, such as search.")]
    name: Annotated[str, Meta(max_length=128, description="Name that pages show; by default the id.")] = ""

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        found = () if project_id else await teams.list_all(at.control)
        return [cls(team=teams.short(row.id), name=row.name) for row in found]

    def normal(self, _at: At, _known: Mapping[Key, Self]) -> Self:
        team = self.team.strip()
        return self.replace(team=team, name=self.name.strip() or team)

    async def save(self, at: At, before: Self | None) -> None:
        if before is None:
            await teams.create(at.control, await at.cell(""), at.by, self.team, self.name, at.now)
        else:
            await teams.rename(at.control, at.by, await teams.get(at.control, TEAM + self.team), self.name)

    async def remove(self, at: At) -> None:
        await teams.remove(at.control, await at.cell(""), at.by, TEAM + self.team)


class ManagedUser(Resource, frozen=True, kw_only=True):
    """The role of a user in a project or team, or of an admin. Who has no account is invited, and gets all of their roles with it."""

    kind = "users"
    keyed_by = ("project_id", "email")
    scope = Scope.ADMIN
    form: ClassVar = {"project": "projectId"}
    is_of_teams = True

    project_id: Annotated[str, Meta(max_length=128, description="Project, or team::<id>; empty for an admin.")]
    email: Annotated[str, Meta(description="Address to sign in with. Who has no account gets a link: `secret`.")]
    role: Annotated[str, Meta(description="viewer or member of a project, or admin.")]

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        invited = [
            invitation
            for invitation in await invitations.pending(at.control, at.now)
            if (invitation.project_id or "") == project_id
        ]
        found = [*((one.email, one.role) for one in invited), *await users.roles_of(at.control, project_id)]
        return [cls(project_id=project_id, email=email or "", role=role or "") for email, role in found]

    def normal(self, _at: At, _known: Mapping[Key, Self]) -> Self:
        return self.replace(email=users.parse_email(self.email))

    async def save(self, at: At, _before: Self | None) -> str | None:
        grant, cell = _grant(self.role, self.project_id), await at.cell(self.project_id)
        user = await users.find_by_email(at.control, self.email)
        if user is None:
            token = await invitations.invite(at.control, cell, at.now, at.by, self.email, grant)
            return f"{at.services.settings.public_url or ''}/join?token={token}"
        if user.is_admin and self.project_id:
            raise users.refused("email", "This is an admin, who has every project: take that role away first.")
        await users.set_role(at.control, cell, at.by, await users.get(at.control, user.id, is_locked=True), grant)
        return None

    async def remove(self, at: At) -> None:
        if user := await users.find_by_email(at.control, self.email):
            account = await users.get(at.control, user.id, is_locked=True)
            await users.remove_role(at.control, at.by, account, self.project_id or None)
            return
        for invitation in await invitations.pending(at.control, at.now):
            if (invitation.project_id or "", invitation.email) == self.which:
                await invitations.withdraw(at.control, at.by, invitation.id)


class ManagedGroup(Resource, frozen=True, kw_only=True):
    """The role of a group of the OpenID provider: its people get it when they sign in. In a project that has groups, these decide."""

    kind = "groups"
    keyed_by = ("project_id", "group")
    scope = Scope.ADMIN
    form: ClassVar = {"project": "projectId", "group_name": "group"}
    is_of_teams = True

    project_id: Annotated[str, Meta(max_length=128, description="Project, or team::<id>; empty for admins.")]
    group: Annotated[str, Meta(max_length=256, description="Its name, as the claim OIDC_GROUPS_CLAIM has it.")]
    role: Annotated[str, Meta(description="viewer or member of a project, or admin.")]

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        found = await identities.groups_of(at.control, project_id)
        return [cls(project_id=project_id, group=row.group_name, role=row.role) for row in found]

    async def save(self, at: At, _before: Self | None) -> None:
        cell = await at.cell(self.project_id)
        await identities.set_group(at.control, cell, at.by, self.group, _grant(self.role, self.project_id))

    async def remove(self, at: At) -> None:
        await identities.remove_group(at.control, at.by, self.project_id, self.group)


class _Named(Resource, frozen=True, kw_only=True):
    """What is known by its name."""

    keyed_by = ("project_id", "name")

    name: Annotated[str, Meta(max_length=128)]

    def normal(self, _at: At, _known: Mapping[Key, Self]) -> Self:
        name = self.name.strip()
        if not name:
            raise InvalidName("Give it a name.", details=(Detail("name", "Give it a name."),))
        return self.replace(name=name)


class ManagedKey(_Named, frozen=True, kw_only=True):
    """An active key, by its name. It is made once, and not changed: another name is another key."""

    kind = "keys"
    scope = Scope.ADMIN

    project_id: Annotated[str, Meta(max_length=128, description="Project; empty for an admin key.")]
    name: Annotated[str, Meta(max_length=80, description="The start of a key that has no name.")]
    scopes: tuple[str, ...]
    expires_at: Annotated[Moment | None, Meta(description="null for never.")] = None

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        found = await (keys.of_project(at.control, project_id) if project_id else keys.list_all(at.control))
        return [
            cls.of(row, project_id=project_id, name=row.name or row.prefix)
            # The newest last, by which one that was rotated is known.
            for row in reversed(found)
            if is_active(row, at.now) and (row.project_id or "") == project_id
        ]

    async def save(self, at: At, before: Self | None) -> str | None:
        if before is not None:
            raise InvalidScope("A key is not changed: give another one another name, and delete this one.")
        lifetime = _lifetime(at, self.expires_at)
        scopes, project_id = parse_scopes(self.scopes), self.project_id or None
        issued = keys.issue(
            at.control, at.now, at.by, project_id=project_id, scopes=scopes, name=self.name, lifetime=lifetime
        )
        return issued.secret

    async def remove(self, at: At) -> None:
        for key in await keys.list_all(at.control):
            if (key.project_id or "", key.name or key.prefix) == self.which:
                keys.revoke(at.control, at.now, at.by, key)


class ManagedLink(_Named, frozen=True, kw_only=True):
    """A shared link of a project, by its name. It is made once, and not changed."""

    kind = "links"
    scope = Scope.PROJECT_WRITE

    expires_at: Annotated[Moment | None, Meta(description="null for never.")] = None

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        found = await shared_links.list_links(at.control, project_id) if project_id else ()
        return [cls.of(row) for row in reversed(found)]

    async def save(self, at: At, before: Self | None) -> str:
        if before is not None:
            raise InvalidName("A link is not changed: give another one another name, and delete this one.")
        lifetime, of = _lifetime(at, self.expires_at), {"project_id": self.project_id, "name": self.name}
        made = await shared_links.create(at.control, at.now, at.by, **of, lifetime=lifetime, password_hash=None)
        return f"{at.services.settings.public_url or ''}/shared/{made.token}"

    async def remove(self, at: At) -> None:
        for link in await shared_links.list_links(at.control, self.project_id):
            if link.name == self.name:
                await shared_links.remove(at.control, at.by, self.project_id, link.id)


class ManagedDiscount(Resource, frozen=True, kw_only=True):
    """What a project pays less. One that has begun is ended, not changed."""

    kind = "discounts"
    keyed_by = ("project_id", "provider", "effective_from")
    scope = Scope.ADMIN

    provider: Annotated[str, Meta(description="Empty for all providers.")] = ""
    percent: Annotated[Decimal, Meta(description="Above 0, up to 100.")]
    effective_from: Annotated[Moment | None, Meta(description="null for always.")] = None
    effective_to: Annotated[Moment | None, Meta(description="null for no end.")] = None
    note: str | None = None

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        return [
            cls.of(discount, provider=discount.provider or "") for discount in await _current_discounts(at, project_id)
        ]

    def normal(self, _at: At, _known: Mapping[Key, Self]) -> Self:
        provider = provider_key(self.provider) if self.provider.strip() else ""
        return self.replace(provider=provider, note=(self.note or "").strip() or None)

    async def save(self, at: At, before: Self | None) -> None:
        if before is not None:
            if before.effective_from is None or before.effective_from <= at.now:
                why = "A discount that has begun is not changed: delete it, which ends it, and add another."
                raise InvalidPrice(why)
            await before.remove(at)
        texts = {name: as_text(getattr(self, name)) for name in discounts.SHOWN}
        await discounts.add(at.control, at.by, self.project_id, texts, at.now)

    async def remove(self, at: At) -> None:
        for row in await _current_discounts(at, self.project_id):
            if row.id is not None and (row.provider or "", row.effective_from) == self.which[1:]:
                await discounts.end(at.control, at.by, row.id, at.now)


class ManagedRate(Resource, frozen=True, kw_only=True):
    """What a US dollar is worth in the currency that pages show, from a day on. Without any rate they show dollars."""

    kind = "currencyRates"
    keyed_by = ("project_id", "since")
    scope = Scope.ADMIN

    project_id: Annotated[str, Meta(max_length=0, description="Always empty: rates are of the installation.")] = ""
    since: Annotated[date, Meta(description="First day (UTC).")]
    currency: Annotated[str, Meta(description="By ISO 4217; the same in all rates.")]
    rate: Annotated[Decimal, Meta(description="What one US dollar is worth, such as 0.92.")]

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        return [] if project_id else [cls.of(rate, project_id="") for rate in await currency.list_rates(at.control)]

    def normal(self, _at: At, _known: Mapping[Key, Self]) -> Self:
        return self.replace(currency=self.currency.strip().upper())

    async def save(self, at: At, before: Self | None) -> None:
        if before is not None:
            await before.remove(at)
        texts = {"currency": self.currency, "since": self.since.isoformat(), "rate": plain(self.rate)}
        await currency.add(at.control, at.by, texts, at.now)

    async def remove(self, at: At) -> None:
        await currency.remove(at.control, at.by, self.since)


_SAID = {
    "project_id": OfAll,
    "match": Annotated[str, Meta(description="exact, prefix or regex.")],
    "above_input_tokens": Annotated[int, Meta(description="For runs with more input tokens.")],
    "unit_rates": Annotated[str, Meta(description="Of further units, as the form has them.")] | None,
    "variants": Annotated[str, Meta(description="Of tiers and regions, as the form has them.")] | None,
    "effective_from": Moment | None,
    "effective_to": Moment | None,
}
_DEFAULTS = {"project_id": "", "match": "exact"}
if TYPE_CHECKING:
    _PriceFields = Resource
else:
    _PriceFields = defstruct(
        "_PriceFields",
        [
            (one.name, _SAID.get(one.name, one.type), field(default=_DEFAULTS.get(one.name, one.default)))
            if one.default is not MISSING
            else (one.name, one.type)
            for one in fields(Draft)
        ],
        bases=(Resource,),
        frozen=True,
        kw_only=True,
    )


class ManagedPrice(_PriceFields, frozen=True, kw_only=True):
    """A price that was entered, or corrected, by hand. Amounts are US dollars."""

    kind = "prices"
    keyed_by = ("project_id", "provider", "model", "match", "pattern", "above_input_tokens", "effective_from")
    scope = Scope.ADMIN

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        found = await entries.list_current(at.control, project_id or None)
        return [cls._price(row) for row in found if row.source == PriceSource.ADMIN]

    def normal(self, _at: At, _known: Mapping[Key, Self]) -> Self:
        return self._price(self._draft)

    async def save(self, at: At, _before: Self | None) -> None:
        for row in await entries.list_current(at.control, self.project_id or None):
            # One of the catalogue as well, which is then ours.
            if self._price(row).which == self.which:
                await entries.change(at.control, at.by, row, self._draft, at.now)
                return
        await entries.add(at.control, at.by, self._draft, at.now)

    async def remove(self, at: At) -> None:
        for row in await entries.list_current(at.control, self.project_id or None):
            if self._price(row).which == self.which:
                await entries.withdraw(at.control, at.by, row, at.now)

    @classmethod
    def _price(cls, draft: Draft | PriceEntry) -> Self:
        """Return a price of a draft, or of a row."""
        of = {"provider": provider_key(draft.provider), "match": str(draft.match)}
        return cls.of(draft, project_id=draft.project_id or "", **of)

    @property
    def _draft(self) -> Draft:
        """What it is in the form. Raises `InvalidPrice`."""
        return read_draft({name: as_text(getattr(self, name)) for name in FIELDS})


def _grant(role: str, project_id: str) -> Grant:
    """Raises `InvalidUser`."""
    if role not in set(Role):
        raise users.refused("role", "Choose viewer, member or admin.")
    return Grant(Role(role), project_id or None)


def _lifetime(at: At, end: datetime | None) -> timedelta | None:
    """Raises `InvalidName` for an end that is over."""
    if end is not None and end <= at.now:
        raise InvalidName.at("expires_at", "Choose a time to come.")
    return end - at.now if end else None


async def _current_discounts(at: At, project_id: str) -> list[ProjectDiscount]:
    found = await discounts.list_of_project(at.control, project_id) if project_id else ()
    return [row for row in found if row.effective_to is None or row.effective_to > at.now]
