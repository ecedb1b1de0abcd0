"""Sign-in sessions: the browser has a signed cookie with a random token, the database has the session."""

import asyncio
import hashlib
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from quart import Quart, current_app, g, request, session
from quart.sessions import SecureCookieSessionInterface

from api.current import incoming, services
from api.limits import wrong_keys_limited
from runtally.access import passwords, sessions, shared_links, users
from runtally.access.keys import verify
from runtally.access.scopes import SCOPES, Scope
from runtally.access.shared_links import OpenLink
from runtally.audit import Actor, ActorKind
from runtally.errors import InvalidCredentials, InvalidKey, NotConfigured, PasswordsBusy, RateLimited
from runtally.limits.rate import Rate
from runtally.limits.wrong_keys import source_of
from runtally.models.user import Role, User
from runtally.settings import Settings
from webapp.addresses import cookies_are_secure

# Tries from one address at one account: ten at once, then one a minute, which is enough for mistypes.
TRIES = Rate(10, timedelta(minutes=10))
# Tries from all addresses at one account. Beyond that a try is slowed down and not refused, for it may be the owner's.
TRIES_OF_ALL = Rate(100, timedelta(hours=1))
SLOW_SECONDS = 3.0
COOKIE = "runtally_session"
_TOKEN = "token"  # noqa: S105  # Where in the cookie it is.
_PASSWORDS_OFF = "Passwords are off on this server; sign in through its provider."  # Said to people.
_LINK = "link"
"""Where the token of a shared link is, of who has no account."""


class _Sessions(SecureCookieSessionInterface):
    def get_cookie_secure(self, app: Quart) -> bool:  # noqa: ARG002  # The signature is Quart's.
        return cookies_are_secure()


def set_up(app: Quart, settings: Settings) -> None:
    app.session_interface = _Sessions()
    keys = [secret.get_secret_value() for secret in settings.secret_key]
    app.secret_key = keys[0] if keys else None
    app.config["SECRET_KEY_FALLBACKS"] = keys[1:]
    # The database knows how long a session lasts; the cookie need not be sent with every answer.
    app.permanent_session_lifetime = sessions.LIFETIME
    app.config["SESSION_REFRESH_EACH_REQUEST"] = False
    app.config["SESSION_COOKIE_NAME"] = COOKIE
    app.config["SESSION_COOKIE_PATH"] = settings.base_path or "/"
    app.config["SESSION_COOKIE_SAMESITE"] = "Lax"


def demand_secret() -> None:
    """Raise `NotConfigured` without SECRET_KEY: no session could be kept."""
    if not current_app.secret_key:
        raise NotConfigured("The server has no SECRET_KEY, so nobody can sign in; ask its operator to set it.")


async def sign_in_with_key(key: str) -> None:
    """Start a session for the holder of this key. Raises `InvalidKey`, `RateLimited`, and `NotConfigured`."""
    demand_secret()
    async with wrong_keys_limited(incoming()), services().control.database.connection() as connection:
        actor = await verify(connection, services().clock(), key)
    if are_passwords_off() and Scope.ADMIN not in actor.scopes:
        raise InvalidKey(f"{_PASSWORDS_OFF} Only an admin key opens the pages besides.")
    await _begin(key_id=UUID(actor.name))


async def sign_in_with_password(email: str, password: str) -> None:
    """Start a session for the user. Raises `InvalidCredentials`, `RateLimited`, `PasswordsBusy` and `NotConfigured`."""
    demand_secret()
    if are_passwords_off():
        raise InvalidCredentials(_PASSWORDS_OFF)
    # Check this before the try is counted: a user who is refused because of others has not tried.
    passwords.refuse_when_busy(source())
    await _count_try(email)
    async with wrong_keys_limited(incoming()):
        user = await checked(email, password)
    await begin_as(user)


async def checked(email: str, password: str) -> User:
    """Return the user with this password. Raises `InvalidCredentials` and `PasswordsBusy`."""
    async with services().control.database.session() as database:
        found = await users.find_by_email(database, email)
    # Outside of a transaction: hashing takes long.
    user = await users.check_password(found, password, source())
    if passwords.is_outdated(user.password_hash):
        # If there is no time for that now, the next sign-in does it.
        with suppress(PasswordsBusy):
            renewed = await passwords.hashed(password, source())
            async with services().control.database.session() as database:
                (await users.get(database, user.id)).user.password_hash = renewed
    return user


async def checked_again(user: User, password: str) -> None:
    """Check the password of a signed-in user again; tries are counted as for signing in.

    Raises `InvalidCredentials`, `RateLimited` and `PasswordsBusy`.
    """
    passwords.refuse_when_busy(source())
    await _count_try(user.email)
    if not await passwords.is_right(password, user.password_hash, source()):
        raise InvalidCredentials("This is not your current password.")


def source() -> str:
    """Return the address that this request is counted for."""
    return source_of(request.remote_addr)


async def begin_as(user: User, lifetime: timedelta = sessions.LIFETIME) -> None:
    """Start a session for the user, in place of any that the browser had."""
    await _begin(user_id=user.id, lifetime=lifetime)


def are_passwords_off() -> bool:
    """Return whether people come in through the OpenID provider alone."""
    return services().settings.oidc_only


async def begin_by_link(token: str) -> None:
    """Start a session that may read the project of a shared link; one that it replaces ends. Raises `NotConfigured`."""
    demand_secret()
    await sign_out()
    session.permanent = True
    session[_LINK] = token


async def check_link_password(link: OpenLink, password: str) -> None:
    """Raises `InvalidCredentials`, `RateLimited` and `PasswordsBusy`."""
    passwords.refuse_when_busy(source())
    await _count_try(str(link.id))
    async with wrong_keys_limited(incoming()):
        if not await passwords.is_right(password, link.password_hash, source()):
            raise InvalidCredentials("Wrong password.")


async def sign_out() -> None:
    token = session.get(_TOKEN)
    session.clear()
    if token:
        async with services().control.database.session() as database:
            await sessions.end(database, token)


async def holder() -> Actor | None:
    """Return the holder of the request's session; None without a valid one."""
    token, link_token = session.get(_TOKEN), session.get(_LINK)
    if token is None and link_token is None:
        return None
    async with services().control.database.connection() as connection:
        if token is not None:
            actor = await sessions.holder(connection, services().clock(), token)
        else:
            link = await shared_links.find_by_token(connection, services().clock(), str(link_token))
            actor = shared_links.reader_of(link) if link else None
            # The frame of every page says whose it is.
            g.shared_link = link
    if actor is None:
        session.clear()
    return actor


def presumed_holder(project_id: str | None) -> Actor | None:
    """Return who holds the request's session while the database cannot say it: for the frame of an error page, and for nothing else."""
    if _TOKEN in session:
        return Actor(ActorKind.USER, "", SCOPES[Role.MEMBER], project_id)
    return Actor(ActorKind.LINK, "", frozenset({Scope.METRICS_READ}), project_id) if _LINK in session else None


async def _begin(
    *, user_id: UUID | None = None, key_id: UUID | None = None, lifetime: timedelta = sessions.LIFETIME
) -> None:
    now, before = services().clock(), session.get(_TOKEN)
    async with services().control.database.session() as database:
        if before:
            await sessions.end(database, before)
        token = sessions.begin(database, now, user_id=user_id, key_id=key_id, lifetime=lifetime)
    async with services().control.database.connection() as connection:
        await sessions.begun(connection, now, token)
    session.clear()
    session.permanent = True
    session[_TOKEN] = token


async def _count_try(email: str) -> None:
    """Count an attempt, right or wrong, so that the limit does not tell them apart. Raises `RateLimited`."""
    # Only a hash is stored: the table of limits must not list accounts, or what was typed into the wrong field.
    account = hashlib.sha256(email.strip().lower().encode()).hexdigest()
    limiter = services().limiter
    decision = await limiter.take(f"sign-in:{account}:{source()}", TRIES)
    if not decision.granted:
        raise RateLimited(
            f"Too many tries for this address; wait {decision.retry_after_seconds} seconds and try again.",
            retry_after_seconds=decision.retry_after_seconds,
        )
    if not (await limiter.take(f"sign-in-of-all:{account}", TRIES_OF_ALL)).granted:
        await asyncio.sleep(SLOW_SECONDS)
