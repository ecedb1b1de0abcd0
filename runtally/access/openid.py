"""Sign-in with OpenID Connect: redirect to the provider, and check its answer when the browser returns.

Authorization code with PKCE, state and nonce. An ID token counts only if a key of the provider signed it, for us, now, and
for this very attempt; an address only if the provider verified it. Whatever is odd refuses: nothing here is open by default.
"""

import asyncio
import hashlib
import hmac
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlsplit

import httpx
import msgspec
import structlog

from runtally.errors import InvalidCredentials, ReceiverUnavailable
from runtally.settings import OpenIdSettings

DISCOVERY = "/.well-known/openid-configuration"
# Signatures that need the provider's private key. With a shared secret, or none, others could sign.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
TIMEOUT_SECONDS = 10.0
# How long what the provider says of itself is taken to be true; keys it has changed since are asked for again.
KEPT_SECONDS = 3600.0
LEAST_SECONDS_BETWEEN = 30.0
LEEWAY_SECONDS = 60
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}

log = structlog.get_logger()


class SignInFailed(InvalidCredentials):
    code = "sign_in_failed"
    message = "Signing in did not work out; start again from this page."


class ProviderUnavailable(ReceiverUnavailable):
    code = "identity_provider_unavailable"
    message = "The sign-in service does not answer as it should; try again in a moment, or sign in with a password."


@dataclass(frozen=True, slots=True)
class Attempt:
    """The values that the browser keeps during an attempt; each is used once."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> "Attempt":
        return cls(secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48))


@dataclass(frozen=True, slots=True)
class Person:
    """A person whom the provider has identified: `subject` never changes, and the address is verified."""

    issuer: str
    subject: str
    email: str
    name: str
    groups: frozenset[str] = frozenset()


class _Metadata(msgspec.Struct, frozen=True):
    """The values of discovery that are used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _Tokens(msgspec.Struct, frozen=True):
    """The answer to a code."""

    id_token: str


class _Claims(msgspec.Struct, frozen=True):
    """The claims of an ID token whose signature was verified."""

    iss: str
    sub: str
    aud: str | tuple[str, ...]
    exp: float
    iat: float
    nonce: str
    azp: str | None = None
    nbf: float | None = None
    email: str | None = None
    email_verified: bool | str = False
    name: str | None = None
    groups: Any = None
    """What the claim of the settings says: a list, one group, or an object with a name for each. Nobody is kept out by another form."""


class OpenIdProvider:
    """The provider of the settings."""

    def __init__(self, settings: OpenIdSettings, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._settings = settings
        self._transport = transport
        # Once, at the start: to read the system's certificates keeps everybody waiting for 35 ms.
        self._certificates = httpx.create_ssl_context()
        self._lock = asyncio.Lock()
        self._metadata: tuple[_Metadata, float] | None = None
        self._keys: tuple[Mapping[str, Any], float] | None = None

    @property
    def name(self) -> str:
        return self._settings.name

    async def start(self, redirect_uri: str, attempt: Attempt) -> str:
        """Return the URL to redirect the browser to. Raises `ProviderUnavailable`."""
        metadata = await self._discovered()
        digest = hashlib.sha256(attempt.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": self._settings.scope,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        return str(httpx.URL(metadata.authorization_endpoint).copy_merge_params(asked))

    async def finish(self, redirect_uri: str, attempt: Attempt, answer: Mapping[str, str]) -> Person:
        """Return the person who signed in, from the query of the callback.

        Raises `SignInFailed`, `ProviderUnavailable`.
        """
        if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise _failed("state")
        if answer.get("iss", self._settings.issuer) != self._settings.issuer:
            raise _failed("issuer of the answer")
        if "error" in answer or not answer.get("code"):
            raise _failed("refused by the provider")
        metadata = await self._discovered()
        token = await self._token(metadata, redirect_uri, attempt, answer["code"])
        return self._person(await self._verified(metadata, token), attempt)

    async def _token(self, metadata: _Metadata, redirect_uri: str, attempt: Attempt, code: str) -> str:
        """The ID token for the code."""
        ours, secret = self._settings.client_id, self._settings.client_secret.get_secret_value()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        auth = httpx.Auth()
        if "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            # RFC 6749 wants both written as in a form before they become a header.
            auth = httpx.BasicAuth(quote_plus(ours), quote_plus(secret))
        else:
            form |= {"client_id": ours, "client_secret": secret}
        async with self._client() as client:
            try:
                answer = await client.post(metadata.token_endpoint, data=form, auth=auth)
            except httpx.HTTPError as error:
                raise _unavailable(error) from None
        if answer.is_server_error:
            raise ProviderUnavailable
        try:
            return msgspec.json.decode(answer.content, type=_Tokens).id_token
        except msgspec.DecodeError:
            raise _failed("code") from None

    async def _verified(self, metadata: _Metadata, token: str) -> _Claims:
        """The claims of a token that the provider signed."""
        # A tenth of a second and cryptography, for who signs in this way alone.
        from joserfc import jwt  # noqa: PLC0415
        from joserfc.errors import JoseError  # noqa: PLC0415
        from joserfc.jwk import KeySet  # noqa: PLC0415

        for is_last in (False, True):
            keys = await self._signing_keys(metadata, is_anew=is_last)
            try:
                claims = jwt.decode(token, KeySet.import_key_set(keys), algorithms=ALGORITHMS).claims  # type: ignore[arg-type]  # As sent.
                return msgspec.convert(claims | {"groups": claims.get(self._settings.groups_claim)}, _Claims)
            except msgspec.ValidationError:
                raise _failed("claims") from None
            except (JoseError, ValueError, TypeError, KeyError):
                # The provider may have changed its keys; once is enough to know.
                if is_last:
                    raise _failed("signature") from None
        raise _failed("signature")

    def _person(self, claims: _Claims, attempt: Attempt) -> Person:
        audience = (claims.aud,) if isinstance(claims.aud, str) else claims.aud
        ours, now = self._settings.client_id, time.time()
        holds = {
            "issuer": claims.iss == self._settings.issuer,
            "audience": ours in audience and (claims.azp or ours) == ours and (len(audience) == 1 or bool(claims.azp)),
            "expired": claims.exp > now - LEEWAY_SECONDS,
            "not yet": max(claims.iat, claims.nbf or 0) < now + LEEWAY_SECONDS,
            "nonce": hmac.compare_digest(claims.nonce.encode(), attempt.nonce.encode()),
            "subject": bool(claims.sub),
            # Some providers write booleans as text.
            "address not verified": bool(claims.email) and claims.email_verified in {True, "true"},
        }
        wrong = next((name for name, is_right in holds.items() if not is_right), None)
        if wrong is not None:
            raise _failed(wrong)
        email = str(claims.email)
        name = (claims.name or "").strip() or email.partition("@")[0]
        groups = claims.groups if isinstance(claims.groups, list | Mapping) else (claims.groups,)
        return Person(
            claims.iss, claims.sub, email, name, frozenset(group for group in groups if isinstance(group, str))
        )

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(timeout=TIMEOUT_SECONDS, transport=self._transport, verify=self._certificates)

    async def _discovered(self) -> _Metadata:
        """Raises `ProviderUnavailable`, also for a document that is another issuer's."""
        async with self._lock:
            if self._metadata is None or time.monotonic() - self._metadata[1] > KEPT_SECONDS:
                body = await self._fetch(f"{self._settings.issuer.rstrip('/')}{DISCOVERY}")
                try:
                    found = msgspec.json.decode(body, type=_Metadata)
                except msgspec.DecodeError:
                    raise ProviderUnavailable from None
                endpoints = (found.authorization_endpoint, found.token_endpoint, found.jwks_uri)
                if found.issuer != self._settings.issuer or not all(map(is_private, endpoints)):
                    log.error("openid_discovery_refused", issuer=self._settings.issuer)
                    raise ProviderUnavailable
                self._metadata = found, time.monotonic()
            return self._metadata[0]

    async def _signing_keys(self, metadata: _Metadata, *, is_anew: bool) -> Mapping[str, Any]:
        """Anew not more often than twice a minute: a made-up token must not make us ask without end."""
        async with self._lock:
            age = None if self._keys is None else time.monotonic() - self._keys[1]
            if self._keys is None or age is None or age > (LEAST_SECONDS_BETWEEN if is_anew else KEPT_SECONDS):
                body = await self._fetch(metadata.jwks_uri)
                try:
                    self._keys = msgspec.json.decode(body, type=dict[str, Any]), time.monotonic()
                except msgspec.DecodeError:
                    raise ProviderUnavailable from None
            return self._keys[0]

    async def _fetch(self, url: str) -> bytes:
        async with self._client() as client:
            try:
                return (await client.get(url)).raise_for_status().content
            except httpx.HTTPError as error:
                raise _unavailable(error) from None


def is_private(url: str) -> bool:
    """Return whether requests to this URL are encrypted, or stay on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def _unavailable(error: httpx.HTTPError) -> ProviderUnavailable:
    log.warning("openid_provider_unavailable", error=type(error).__name__)
    return ProviderUnavailable()


def _failed(what: str) -> SignInFailed:
    """Log the reason of a failed sign-in, and return an error that does not name it."""
    log.warning("openid_sign_in_refused", reason=what)
    return SignInFailed()
