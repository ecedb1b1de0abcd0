"""Signatures, and where alerts may be posted to."""

import socket
from collections.abc import Sequence
from datetime import timedelta

import pytest

from runtally.alerts.channels.webhook import new_secret, sign
from runtally.alerts.posting import PrivateAddress, is_public, parse_url, resolve
from runtally.alerts.sender import MAX_ATTEMPTS, pause_after


def test_a_signature_is_that_of_the_standards_own_example() -> None:
    # From the test vectors of standard-webhooks.
    signature = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_every_secret_is_another() -> None:
    assert new_secret() != new_secret()
    assert new_secret().startswith("whsec_")


@pytest.mark.parametrize("url", ["https://example.com/a?b=c", "http://example.com:8080", "https://[2606:4700::1]/x"])
def test_a_web_address_can_be_posted_to(url: str) -> None:
    assert parse_url(url) is not None


NO_URLS = [
    "example.com",
    "ftp://example.com",
    "file:///etc/passwd",
    "https://",
    "https://user:pw@example.com",
    "http://",
    "http://[::1",
    "gopher://example.com",
    "javascript:alert(1)",
    "https://a..b/",
    "https://.example.com/",
    f"https://{'a' * 64}.example.com/",
    "https://xn--/",
]


@pytest.mark.parametrize(
    "url", ["", "https://exa mple.com", "https://example.com/\n", f"https://{'a' * 3000}", *NO_URLS]
)
def test_an_invalid_address_is_refused(url: str) -> None:
    assert parse_url(url) is None


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111"])
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


# In other clothes, too: mapped, translated, 6to4, Teredo.
PRIVATE = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",  # noqa: S104  # Nothing is bound.
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fec0::1",
    "168.63.129.16",
    "192.0.0.192",
    "::ffff:168.63.129.16",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b:1::7f00:1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2002:a00:1::",
    "2001:0:4136:e378:8000:63bf:f5ff:fffe",
    "localhost",
    "nonsense",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_addresses_of_this_machine_and_of_private_networks_are_not(address: str) -> None:
    assert not is_public(address)


async def test_a_name_is_refused_if_any_of_its_addresses_is_private(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Sequence[str] = ["1.1.1.1", "10.0.0.1"]

    def getaddrinfo(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in answers]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    with pytest.raises(PrivateAddress):
        await resolve("rebound.example", 443, allow_private=False)
    assert await resolve("rebound.example", 443, allow_private=True) == "1.1.1.1"
    answers = ["1.1.1.1", "2606:4700::1"]
    assert await resolve("fine.example", 443, allow_private=False) == "1.1.1.1"


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "localhost.", "[::ffff:7f00:1]"])
async def test_this_machine_is_known_by_any_name(host: str) -> None:
    url = parse_url(f"http://{host}/")
    assert url is not None

    with pytest.raises((PrivateAddress, OSError)):
        await resolve(url.host, 80, allow_private=False)


def test_pauses_grow_up_to_six_hours() -> None:
    pauses = [pause_after(attempts) for attempts in range(1, MAX_ATTEMPTS)]

    assert pauses[0] == timedelta(seconds=30)
    assert pauses == sorted(pauses)
    assert pauses[-1] == timedelta(hours=6)
