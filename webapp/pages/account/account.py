"""The page of a user's own account: choose a time zone, change the password, and sign out everywhere."""

from functools import cache
from typing import ClassVar
from uuid import UUID
from zoneinfo import available_timezones

from msgspec import field
from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access import passwords, users
from runtally.access.sessions import end_all
from runtally.access.users import Account
from runtally.audit import ActorKind
from runtally.clock import zone_named
from runtally.errors import Detail, InvalidCredentials, InvalidUser, NotFound, PasswordsBusy
from webapp import sessions, zone
from webapp.form import Form, sent_form
from webapp.rendering import Page, keep, render, render_refused, see_other
from webapp.security import signed_in

blueprint = Blueprint("account", __name__)


class AccountPage(Page, frozen=True):
    """The user's role and projects, and the forms for a time zone and a new password."""

    fragment: ClassVar[str] = "account/_account.html"
    tab_title: ClassVar[str] = "Your account"

    account: Account
    min_length: int = passwords.MIN_LENGTH
    form: Form = field(default_factory=Form)
    zone_form: Form = field(default_factory=lambda: Form("time", {"zone": (zone.chosen(),)}))

    @property
    def zones(self) -> list[str]:
        return _zones()


@blueprint.get("/account")
@signed_in
async def account() -> ResponseReturnValue:
    """The account of the user who is signed in."""
    return await render(AccountPage(await _own()))


@blueprint.post("/account/time-zone")
@signed_in
async def choose_zone() -> ResponseReturnValue:
    """Keep the time zone of this browser's pages in a cookie, like the theme; an empty name is the browser's own."""
    own, form = await _own(), await sent_form("time")
    name = form.value("zone").strip()
    if name and zone_named(name) is None:
        error = InvalidUser(
            details=(Detail("zone", "No such time zone; choose one of the list, such as Europe/Berlin."),)
        )
        return await render_refused(AccountPage(own, zone_form=form.refused(error)), error)
    response = see_other(url_for(".account"), flash="Time zone saved.")
    keep(response, zone.CHOSEN_COOKIE, name)
    return response


@blueprint.post("/account/password")
@signed_in
async def change_password() -> ResponseReturnValue:
    """Set another password; every other browser is signed out."""
    own, form = await _own(), await sent_form()
    try:
        hash_ = await _new_hash(own, form)
    except (InvalidUser, InvalidCredentials) as error:
        return await render_refused(AccountPage(own, form=form.refused(error, "current")), error)
    except PasswordsBusy as error:
        return await render_refused(AccountPage(own, form=form.refused(error)), error)
    async with services().control.database.session() as database:
        user = (await users.get(database, own.user.id)).user
        await users.set_password(database, actor(), user, hash_)
    await sessions.begin_as(user)
    return see_other(url_for(".account"), flash="Password changed. Every other browser is signed out.")


@blueprint.post("/account/sign-out")
@signed_in
async def sign_out_everywhere() -> ResponseReturnValue:
    """End all sessions of this user, this one too."""
    own = await _own()
    async with services().control.database.session() as database:
        await end_all(database, own.user.id)
    await sessions.sign_out()
    return see_other(url_for("sign_in.sign_in"), flash="You are signed out everywhere.")


async def _own() -> Account:
    """Return the signed-in user. Raises `NotFound` for a session of a key or of dev mode."""
    if actor().kind is not ActorKind.USER:
        raise NotFound
    async with services().control.database.session() as database:
        return await users.get(database, UUID(actor().name))


@cache
def _zones() -> list[str]:
    """Return the names of all zones, which are as many files to look into."""
    return sorted(available_timezones())


async def _new_hash(own: Account, form: Form) -> str:
    password = form.value("password")
    await sessions.checked_again(own.user, form.value("current"))
    passwords.check(password, own.user.email)
    if form.value("again") != password:
        raise InvalidUser(details=(Detail("again", "Type the same password twice."),))
    return await passwords.hashed(password, sessions.source())
