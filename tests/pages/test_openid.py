"""Signing in through an OpenID Connect provider, against a small real one; and what it must not be fooled by."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from joserfc.jwk import ECKey, OctKey
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from api.current import EXTENSION
from runtally.access import identities, invitations, users
from runtally.access.identities import NotInvited, signed_in
from runtally.access.keys import issue
from runtally.access.openid import OpenIdProvider, Person
from runtally.access.scopes import Grant, Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import InvalidUser, SettingsError
from runtally.ids import uuid7
from runtally.models.user import Role, User
from runtally.services import Services
from runtally.settings import load_settings
from tests.openid import CLIENT, DOMAIN, ISSUER, SECRET, Provider, come_back, is_signed_in, leave
from tests.pages.conftest import PASSWORD, Invite, Post
from tests.pages.looking import html_of, text_of
from tests.serving import settings_for
from webapp.app import create_app


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture(scope="session")
async def openid_app(database_url: str, database: Database) -> AsyncIterator[Quart]:
    settings = settings_for(
        database_url, oidc_issuer=ISSUER, oidc_client_id=CLIENT, oidc_client_secret=SECRET, oidc_domains=(DOMAIN,),
        oidc_name="Example ID",
    )  # fmt: skip
    # Nobody gets an account by their domain before there is an admin.
    first = User(
        id=uuid7(), email=f"{uuid4()}@{DOMAIN}", name="First", password_hash="none", is_admin=True,
        created_at=system_clock(),
    )  # fmt: skip
    async with database.session() as session:
        session.add(first)
    async with create_app(settings).test_app() as running:
        yield running.app  # type: ignore[attr-defined]  # Quart's TestApp holds it.


@pytest.fixture
async def viewer(invite: Invite, post: Post, project_id: str) -> str:
    """The address of somebody who has a password and a project."""
    await post()
    return (await invite(Role.VIEWER, project_id))[1]


@pytest.fixture
def browser(openid_app: Quart, provider: Provider) -> Iterator[Browser]:
    """Somebody at the sign-in page of a server whose provider this is."""
    before = openid_app.extensions[EXTENSION]
    provide(openid_app, provider)
    yield openid_app.test_client()
    openid_app.extensions[EXTENSION] = before


def provide(openid_app: Quart, provider: Provider, **changed: Any) -> None:  # noqa: ANN401  # Values of settings.
    """Let this be the provider of the server, with other settings."""
    services: Services = openid_app.extensions[EXTENSION]
    settings = services.settings.model_copy(update=changed)
    assert settings.openid is not None
    own = OpenIdProvider(settings.openid, httpx.ASGITransport(provider))
    openid_app.extensions[EXTENSION] = replace(services, openid=own, settings=settings)


async def test_a_person_of_the_domain_gets_an_account_and_keeps_it(browser: Browser, provider: Provider) -> None:
    assert "Sign in with Example ID" in text_of(await html_of(browser, "/sign-in"))
    asked = await leave(browser, provider)
    assert asked["client_id"] == CLIENT
    assert asked["redirect_uri"] == "http://localhost/sign-in/openid/back"
    assert asked["code_challenge_method"] == "S256"
    assert set(asked["scope"].split()) == {"openid", "email", "profile"}

    response = await come_back(browser, asked)

    assert (response.status_code, response.headers["Location"]) == (303, "/account")
    assert provider.claims["email"] in await html_of(browser, "/account")
    assert "Ask an admin for a role" in text_of(await html_of(browser, "/"))
    # The subject is who they are; an address may change, and need not be verified anew to be recognised.
    provider.claims = {"sub": provider.claims["sub"], "email": f"other-{uuid4().hex}@elsewhere.example"}
    await browser.post("/sign-out")
    await come_back(browser, await leave(browser, provider))
    assert provider.claims["email"] not in await html_of(browser, "/account")


async def test_an_address_links_to_the_account_that_has_it(
    browser: Browser, provider: Provider, viewer: str, database: Database, project_id: str
) -> None:
    provider.claims = {"email": viewer.upper()}

    await come_back(browser, await leave(browser, provider))

    await html_of(browser, f"/projects/{project_id}")
    async with database.connection() as connection:
        [row] = await connection.fetch("SELECT * FROM audit_entries WHERE target = $1", viewer)
    assert row["action"] == "user.identity_linked"


async def test_a_new_owner_of_an_address_does_not_get_the_old_account(
    browser: Browser, provider: Provider, viewer: str, database: Database
) -> None:
    provider.claims = {"email": viewer}
    await come_back(browser, await leave(browser, provider))
    assert await is_signed_in(browser)
    await browser.post("/sign-out")

    provider.claims = {"email": viewer}
    response = await come_back(browser, await leave(browser, provider))

    assert response.status_code == 422
    assert "This address was another person's" in text_of(await response.get_data(as_text=True))
    assert not await is_signed_in(browser)
    async with database.connection() as connection:
        linked = "SELECT count(*) FROM identities JOIN users ON users.id = user_id WHERE email = $1"
        assert await connection.fetchval(linked, viewer) == 1


async def test_an_invitation_is_used_up(
    browser: Browser, provider: Provider, post: Post, database: Database, project_id: str
) -> None:
    await post()
    provider.claims = {"email": f"invited-{uuid4().hex[:8]}@elsewhere.example"}
    async with database.session() as session:
        grant = Grant(Role.MEMBER, project_id)
        token = await invitations.invite(session, session, system_clock(), OPERATOR, provider.claims["email"], grant)

    await come_back(browser, await leave(browser, provider))

    assert "Settings" in text_of(await html_of(browser, f"/projects/{project_id}"))
    assert (await browser.get(f"/join?token={token}")).status_code == 404


async def set_groups(database: Database, *groups: tuple[str, Grant]) -> None:
    async with database.session() as session:
        for group, grant in groups:
            await identities.set_group(session, session, OPERATOR, group, grant)


async def test_groups_decide_the_roles_each_time(
    browser: Browser, provider: Provider, post: Post, database: Database, project_id: str
) -> None:
    await post()
    readers, writers = f"{project_id} readers", f"{project_id} writers"
    await set_groups(
        database, (readers, Grant(Role.VIEWER, project_id)), (writers, Grant(Role.MEMBER, project_id))
    )  # fmt: skip
    # A group with a role lets in whose domain does not.
    person = {"sub": str(uuid4()), "email": f"{uuid4().hex[:8]}@elsewhere.example"}
    roles = dict[str, Any]()
    claims: dict[str, Any] = {
        "several": [readers, writers, "others"], "one": readers, "an object": {writers: {}}, "none": ["others"],
        "no claim": None, "names and more": [{"id": 7}, readers], "another form": 7,
    }  # fmt: skip
    for case, groups in claims.items():
        provider.claims = person | {"groups": groups}
        await come_back(browser, await leave(browser, provider))
        async with database.session() as session:
            user = await users.find_by_email(session, person["email"])
            assert user is not None
            roles[case] = (await users.get(session, user.id)).roles.get(project_id)

    assert roles == {
        "several": "member", "one": "viewer", "an object": "member", "none": None, "no claim": None,
        "names and more": "viewer", "another form": None,
    }  # fmt: skip
    async with database.connection() as connection:
        query = "SELECT after->>'role' AS role FROM audit_entries WHERE target = $1 AND action = 'user.role_set' ORDER BY id"
        audited = [row["role"] for row in await connection.fetch(query, person["email"])]
    assert audited == ["member", "viewer", "member", None, "viewer", None]


async def test_who_is_in_no_group_with_a_role_stays_out(
    browser: Browser, provider: Provider, post: Post, database: Database, project_id: str
) -> None:
    await post()
    await set_groups(database, (project_id, Grant(Role.VIEWER, project_id)))
    provider.claims = {"email": f"{uuid4().hex[:8]}@elsewhere.example", "groups": ["others"]}

    response = await come_back(browser, await leave(browser, provider))

    assert response.status_code == 422
    assert "ask an admin for an invitation" in text_of(await response.get_data(as_text=True))


async def test_groups_make_admins_and_end_that_but_of_the_last(own: Database) -> None:
    settings = load_settings(
        oidc_issuer=ISSUER, oidc_client_id=CLIENT, oidc_client_secret=SECRET, database_url=None
    ).openid  # fmt: skip
    assert settings is not None
    ada = Person(ISSUER, "ada", f"ada@{DOMAIN}", "Ada", frozenset({"ops"}))
    ben = replace(ada, subject="ben", email=f"ben@{DOMAIN}")
    is_admin = list[bool]()
    async with own.session() as session:
        token = await invitations.invite(session, session, system_clock(), OPERATOR, ada.email, Grant(Role.ADMIN, None))
        assert token
        await identities.set_group(session, session, OPERATOR, "ops", Grant(Role.ADMIN, None))
    for person in (ada, ben, replace(ada, groups=frozenset()), replace(ben, groups=frozenset())):
        async with own.session() as session:
            user = await identities.signed_in(session, session, system_clock(), person, settings)
            is_admin.append(user.is_admin)

    assert is_admin == [True, True, False, True]


async def test_a_session_through_the_provider_ends_after_the_hours_of_the_setting(
    browser: Browser, provider: Provider, openid_app: Quart, database: Database
) -> None:
    provide(openid_app, provider, oidc_session_hours=8)

    await come_back(browser, await leave(browser, provider))

    async with database.connection() as connection:
        ends = "SELECT expires_at - sessions.created_at FROM sessions JOIN users ON users.id = user_id WHERE email = $1"
        assert await connection.fetchval(ends, provider.claims["email"]) == timedelta(hours=8)


async def test_without_passwords_people_come_through_the_provider_and_an_operator_with_an_admin_key(
    browser: Browser, provider: Provider, openid_app: Quart, viewer: str, database: Database
) -> None:
    provide(openid_app, provider, oidc_only=True)
    async with database.session() as session:
        now = system_clock()
        email = f"{uuid4().hex[:8]}@elsewhere.example"
        invitation = await invitations.invite(session, session, now, OPERATOR, email, Grant(Role.ADMIN, None))
        key = issue(session, now, OPERATOR, project_id="p", scopes=(Scope.METRICS_READ,)).secret
        admin_key = issue(session, now, OPERATOR, project_id=None, scopes=(Scope.ADMIN,)).secret

    assert "Password" not in text_of(await html_of(browser, "/sign-in"))
    for form in ({"email": viewer, "password": PASSWORD}, {"key": key}):
        response = await browser.post("/sign-in", form=form)
        assert response.status_code == 422
        assert "Passwords are off on this server" in text_of(await response.get_data(as_text=True))
    for response in (
        await browser.get(f"/join?token={invitation}"),
        await browser.post("/join", form={"token": invitation, "name": "Eve", "password": PASSWORD, "again": PASSWORD}),
    ):
        assert (response.status_code, response.headers["Location"]) == (303, "/sign-in")
    assert not await is_signed_in(browser)

    assert (await browser.post("/sign-in", form={"key": admin_key})).status_code == 303
    assert "password reset" not in await html_of(browser, "/admin/users")
    await browser.post("/sign-out")
    provider.claims = {"email": email}
    await come_back(browser, await leave(browser, provider))
    assert "Change password" not in await html_of(browser, "/account")


async def test_who_is_not_invited_or_disabled_stays_out(
    browser: Browser, provider: Provider, database: Database
) -> None:
    provider.claims = {"email": "mallory@elsewhere.example"}
    response = await come_back(browser, await leave(browser, provider))
    assert response.status_code == 422
    assert "ask an admin for an invitation" in text_of(await response.get_data(as_text=True))

    provider.claims = {}
    await come_back(browser, await leave(browser, provider))
    async with database.session() as session:
        user = await users.find_by_email(session, provider.claims["email"])
        assert user is not None
        await users.disable(session, OPERATOR, user, system_clock())
    assert not await is_signed_in(browser)
    response = await come_back(browser, await leave(browser, provider))

    assert response.status_code == 422
    assert not await is_signed_in(browser)


STRANGE_KEY = ECKey.generate_key("P-256", {"kid": "first"})
LIES: dict[str, dict[str, Any]] = {
    "a wrong nonce": {"claims": {"nonce": "another"}},
    "another audience": {"claims": {"aud": "another"}},
    "an audience of several": {"claims": {"aud": [CLIENT, "another"]}},
    "another party": {"claims": {"aud": [CLIENT], "azp": "another"}},
    "another issuer": {"claims": {"iss": "https://evil.example"}},
    "an expired token": {"claims": {"exp": 1_781_524_800}},
    "a token of the future": {"claims": {"iat": 4_000_000_000, "exp": 4_000_003_600}},
    "no time of expiry": {"claims": {"exp": None}},
    "an address that is not verified": {"claims": {"email_verified": False}},
    "an address without a word": {"claims": {"email_verified": None}},
    "no address": {"claims": {"email": ""}},
    "no subject": {"claims": {"sub": ""}},
    "no signature": {"header": {"alg": "none"}},
    "a signature with the secret": {"header": {"alg": "HS256"}, "key": OctKey.import_key(SECRET * 2)},
    "the key of somebody else": {"key": STRANGE_KEY},
}


@pytest.mark.parametrize("lie", LIES)
async def test_it_is_not_fooled_by(browser: Browser, provider: Provider, lie: str) -> None:
    told = LIES[lie]
    provider.claims = dict(told.get("claims", {}))
    provider.header = told.get("header", provider.header)
    provider.key = told.get("key")

    response = await come_back(browser, await leave(browser, provider))

    assert response.status_code == 422, lie
    assert "start again from this page" in text_of(await response.get_data(as_text=True))
    assert not await is_signed_in(browser)


async def test_an_answer_belongs_to_the_attempt_of_this_browser_and_counts_once(
    browser: Browser, provider: Provider, openid_app: Quart
) -> None:
    asked = await leave(browser, provider)
    assert (await come_back(openid_app.test_client(), asked)).status_code == 422
    assert (await come_back(browser, {"state": "another"})).status_code == 422
    # That used the attempt up, so what was right comes too late.
    assert (await come_back(browser, asked)).status_code == 422
    asked = await leave(browser, provider)
    assert (await come_back(browser, asked, error="access_denied")).status_code == 422
    asked = await leave(browser, provider)
    assert (await come_back(browser, asked, code="another code")).status_code == 422
    asked = await leave(browser, provider)
    provider.challenge = "of another verifier"
    assert (await come_back(browser, asked)).status_code == 422
    assert not await is_signed_in(browser)


async def test_keys_may_change_and_a_provider_may_be_away(browser: Browser, provider: Provider) -> None:
    await come_back(browser, await leave(browser, provider))
    assert await is_signed_in(browser)

    provider.is_down = True
    await browser.post("/sign-out")
    asked = await leave(browser, provider)
    response = await come_back(browser, asked)

    assert response.status_code == 422
    assert not await is_signed_in(browser)


@pytest.mark.parametrize(
    "discovery",
    [{"issuer": "https://evil.example"}, {"token_endpoint": "http://id.example.com/token"}, {"jwks_uri": None}],
    ids=["another issuer", "an open line", "no keys"],
)
async def test_a_provider_with_a_wrong_discovery_is_not_used(
    browser: Browser, provider: Provider, discovery: dict[str, Any]
) -> None:
    provider.discovery = discovery

    response = await browser.get("/sign-in/openid")

    assert response.status_code == 503
    # Where it happened: at the provider's button, not in the form for a password.
    text = text_of(await response.get_data(as_text=True))
    assert text.index("or sign in with a password") < text.index("Sign in with Example ID")


async def test_without_a_provider_there_is_no_such_way(stranger: Browser) -> None:
    assert "single sign-on" not in await html_of(stranger, "/sign-in")
    assert (await stranger.get("/sign-in/openid")).status_code == 404


def test_half_a_provider_is_an_error_and_so_is_an_open_line() -> None:
    with pytest.raises(SettingsError, match="or none of them"):
        _ = settings_for("postgresql://nowhere", oidc_issuer=ISSUER).openid
    with pytest.raises(SettingsError, match="OIDC_ONLY needs them"):
        _ = settings_for("postgresql://nowhere", oidc_only=True).openid
    for issuer in ("http://id.example.com", "ftp://id.example.com", "https://id.example.com?x"):
        with pytest.raises(SettingsError, match="OIDC_ISSUER"):
            load_settings(oidc_issuer=issuer)


async def test_the_first_admin_comes_in_by_the_link_that_the_server_prints(empty_database_url: str) -> None:
    settings = settings_for(
        empty_database_url, oidc_issuer=ISSUER, oidc_client_id=CLIENT, oidc_client_secret=SECRET, oidc_domains=(DOMAIN,)
    ).openid
    assert settings is not None
    person = Person(ISSUER, "1", f"ada@{DOMAIN}", "Ada")
    async with Database(empty_database_url) as database, database.session() as session:
        with pytest.raises(NotInvited):
            await signed_in(session, session, system_clock(), person, settings)


@pytest.mark.parametrize("role", ["viewer", "member"])
async def test_the_settings_may_give_a_role(
    database: Database, post: Post, openid_app: Quart, project_id: str, role: str
) -> None:
    await post()
    settings = openid_app.extensions[EXTENSION].settings.openid
    person = Person(ISSUER, str(uuid4()), f"{uuid4()}@{DOMAIN}", "")

    with pytest.raises(InvalidUser):
        async with database.session() as session:
            await signed_in(session, session, system_clock(), person, settings)
    person = replace(person, name="Ada " * 99)
    async with database.session() as session:
        user = await signed_in(session, session, system_clock(), person, replace(settings, role=(role, project_id)))
        account = await users.get(session, user.id)

    assert account.roles == {project_id: Role(role)}
    assert not account.user.is_admin
