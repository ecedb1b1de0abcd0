"""The pages behind one-time links: the first admin's, an invitation's, and one for a new password."""

from collections.abc import Callable
from typing import ClassVar

from msgspec import field
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue

from api.access import public
from api.current import services
from runtally.access import invitations, passwords, users
from runtally.access.invitations import Newcomer
from runtally.errors import Detail, InvalidUser, PasswordsBusy
from runtally.models.user import Invitation, User
from webapp import sessions
from webapp.form import Form, sent_form
from webapp.rendering import Page, render, render_refused, see_other

blueprint = Blueprint("join", __name__)


class JoinPage(Page, frozen=True):
    """Asks for what the link leaves open: `email` is the address it is for, if it is for one."""

    fragment: ClassVar[str] = "account/_join.html"
    has_navigation: ClassVar[bool] = False

    token: str
    email: str | None
    is_reset: bool
    is_first: bool
    min_length: int = passwords.MIN_LENGTH
    form: Form = field(default_factory=Form)

    @property
    def document_title(self) -> str:
        return "Set a new password" if self.is_reset else "Create your account"


@blueprint.after_request
async def keep_token_to_oneself(response: Response) -> Response:
    """Keep the address, which holds the token, out of caches and of Referer headers."""
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


@blueprint.get("/join")
@public
async def join() -> ResponseReturnValue:
    """The form; opening it uses nothing up."""
    token = request.args.get("token", "")
    async with services().control.database.session() as database:
        invitation = await invitations.opened(database, services().clock(), token)
    if _is_for_provider(invitation):
        return see_other(url_for("sign_in.sign_in"))
    return await render(_page(token, invitation, Form()))


@blueprint.post("/join")
@public
async def post_join() -> ResponseReturnValue:
    """Create the account or set the password, and sign in; errors show the form again with 422."""
    sessions.demand_secret()
    form = await sent_form()
    token = form.value("token")
    async with services().control.database.session() as database:
        invitation = await invitations.opened(database, services().clock(), token)
    if _is_for_provider(invitation):
        return see_other(url_for("sign_in.sign_in"))
    try:
        user = await _joined(token, invitation, form)
    except (InvalidUser, PasswordsBusy) as error:
        return await render_refused(_page(token, invitation, form.refused(error)), error)
    await sessions.begin_as(user)
    return see_other(url_for("overview.overview"), flash=f"You are signed in as {user.email}.")


def _is_for_provider(invitation: Invitation) -> bool:
    """Return whether the person comes in through the provider, which accepts the invitation of their address."""
    return invitation.email is not None and sessions.are_passwords_off()


async def _joined(token: str, invitation: Invitation, form: Form) -> User:
    email, name, password = _checked(invitation, form)
    # Outside of a transaction: hashing takes long.
    hash_ = await passwords.hashed(password, sessions.source())
    async with services().control.database.session() as database:
        now = services().clock()
        claimed = await invitations.claimed(database, now, token)
        if claimed.user_id is not None:
            return await invitations.reset(database, claimed, hash_)
        return await invitations.accept(database, now, claimed, Newcomer(email, name, hash_))


def _checked(invitation: Invitation, form: Form) -> tuple[str, str, str]:
    """Return address, name and password. Raises `InvalidUser` with everything that is wrong."""
    wrong: list[Detail] = []

    def checked(parse: Callable[[str], str], text: str) -> str:
        try:
            return parse(text)
        except InvalidUser as error:
            wrong.extend(error.details)
            return text

    email = invitation.email or checked(users.parse_email, form.value("email"))
    name = "" if invitation.user_id else checked(users.parse_name, form.value("name"))
    password = form.value("password")
    try:
        passwords.check(password, email)
    except InvalidUser as error:
        wrong.extend(error.details)
    if form.value("again") != password:
        wrong.append(Detail("again", "Type the same password twice."))
    if wrong:
        raise InvalidUser(details=tuple(wrong))
    return email, name, password


def _page(token: str, invitation: Invitation, form: Form) -> JoinPage:
    is_reset, is_first = invitation.user_id is not None, invitation.email is None
    return JoinPage(token, invitation.email, is_reset, is_first, form=form)
