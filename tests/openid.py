"""A small OpenID Connect provider, and the way to it and back."""

import hashlib
import json
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey
from quart.typing import TestClientProtocol as Browser

ISSUER = "https://id.example.com/realm"
CLIENT, SECRET = "runtally", "secret of the client"
DOMAIN = "example.org"


@dataclass
class Provider:
    """An ASGI application: discovery, keys and tokens, the way a provider answers; `claims` is who comes next."""

    claims: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=lambda: {"alg": "ES256"})
    key: ECKey | OctKey | None = None
    published: list[ECKey] = field(default_factory=lambda: [ECKey.generate_key("P-256", {"kid": "first"})])
    discovery: dict[str, Any] = field(default_factory=dict)
    challenge: str = ""
    is_down: bool = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  # ASGI.
        body = (await receive()).get("body", b"")
        found = None if self.is_down else self.answer(scope["path"], parse_qs(body.decode()), dict(scope["headers"]))
        content = json.dumps(found or {"error": "invalid_grant"}).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200 if found else 400, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def answer(self, path: str, form: dict[str, list[str]], headers: dict[bytes, bytes]) -> dict[str, Any] | None:
        match path.removeprefix("/realm"):
            case "/.well-known/openid-configuration":
                names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
                return {"issuer": ISSUER, **{name: f"{ISSUER}/{end}" for name, end in names.items()}, **self.discovery}
            case "/keys":
                return {"keys": [key.as_dict(private=False) for key in self.published]}
            case "/token":
                proved = urlsafe_b64encode(hashlib.sha256(form["code_verifier"][0].encode()).digest()).rstrip(b"=")
                is_right = form["code"] == ["a code"] and proved.decode() == self.challenge
                if not is_right or not headers[b"authorization"].startswith(b"Basic "):
                    return None
                return {"access_token": "t", "token_type": "Bearer", "id_token": self.token()}
        return None

    def token(self) -> str:
        if self.header["alg"] == "none":
            parts = (self.header, self.claims)
            return ".".join(urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."
        key = self.key or self.published[-1]
        return jwt.encode({"kid": key.kid, **self.header} if key.kid else self.header, self.claims, key)


async def leave(browser: Browser, provider: Provider, target: str = "/account") -> dict[str, str]:
    """Off to the provider, which then knows who it is; what it was asked."""
    response = await browser.get(f"/sign-in/openid?next={target}")
    assert response.status_code == 303, await response.get_data(as_text=True)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(response.headers["Location"]).query).items()}
    provider.challenge = asked["code_challenge"]
    now = int(time.time())
    known = {"iss": ISSUER, "aud": CLIENT, "iat": now, "exp": now + 60, "nonce": asked["nonce"], "sub": str(uuid4())}
    email = f"ada-{uuid4().hex[:8]}@{DOMAIN}"
    provider.claims = known | {"email": email, "email_verified": True, "name": "Ada"} | provider.claims
    return asked


async def come_back(browser: Browser, asked: dict[str, str], **answer: str) -> Any:  # noqa: ANN401  # Quart's response.
    query = httpx.QueryParams({"code": "a code", "state": asked["state"], **answer})
    return await browser.get(f"/sign-in/openid/back?{query}")


async def is_signed_in(browser: Browser) -> bool:
    return bool((await browser.get("/account")).status_code == 200)
