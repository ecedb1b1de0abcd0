"""Signing in through an OpenID Connect provider, against a small real one; and what it must not be fooled by."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx
import pytest
from joserfc.jwk import ECKey, OctKey
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from api.current import EXTENSION
from runtally.access import invitations, users
from runtally.access.identities import NotInvited, signed_in
from runtally.access.openid import OpenIdProvider, Person
from runtally.access.scopes import Grant
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import InvalidUser, SettingsError
from runtally.ids import uuid7
from runtally.models.user import Role, User
from runtally.services import Services
from runtally.settings import load_settings
from tests.openid import CLIENT, DOMAIN, ISSUER, SECRET, Provider, come_back, is_signed_in, leave
from tests.pages.conftest import Invite, Post
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
def browser(openid_app: Quart, provider: Provider) -> Browser:
    """Somebody at the sign-in page of a server whose provider this is."""
    services: Services = openid_app.extensions[EXTENSION]
    assert services.settings.openid is not None
    own = OpenIdProvider(services.settings.openid, httpx.ASGITransport(provider))
    openid_app.extensions[EXTENSION] = replace(services, openid=own)
    return openid_app.test_client()


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
