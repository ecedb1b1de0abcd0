"""Long headers are not there; of long cookies our own are, and of long paths the start."""

import pytest

from webapp.rendering import THEME_COOKIE
from webapp.server.heads import MAX_PATH_CHARS, MAX_VALUE_BYTES, BoundedHeads, Header, bounded
from webapp.server.tracing import Message, Receive, Scope, Send
from webapp.sessions import COOKIE as SESSION

HOST: Header = (b"host", b"localhost")
LONG = b"x" * MAX_VALUE_BYTES


def test_a_header_that_is_too_long_is_missing() -> None:
    assert bounded([HOST, (b"accept", LONG + b"x"), (b"range", LONG)]) == [HOST, (b"range", LONG)]


def test_the_length_of_a_repeated_header_is_that_of_all_values() -> None:
    pieces = [(b"accept", b"text/html")] * (MAX_VALUE_BYTES // 9 + 1)

    assert bounded([*pieces, HOST]) == [HOST]


def test_short_headers_are_kept() -> None:
    sent = [HOST, (b"cookie", b"a=1; b=2"), (b"accept", b"*/*")]

    assert bounded(sent) == sent


@pytest.mark.parametrize("between", [b"; ", b";", b" ;\t"])
def test_of_long_cookies_our_own_stay(between: bytes) -> None:
    own = [f"{SESSION}=abc".encode(), f"{THEME_COOKIE}=dark".encode()]
    sent = between.join([b"of_a_proxy=" + LONG, own[0], b"of_another=" + LONG, own[1], b"said_not"])

    assert bounded([HOST, (b"cookie", sent)]) == [HOST, (b"cookie", b"; ".join(own))]


def test_cookies_under_our_names_are_bounded_too() -> None:
    sent = [HOST, (b"cookie", f"{SESSION}=".encode() + LONG), (b"cookie", f"{THEME_COOKIE}=dark".encode())]

    assert bounded(sent) == [HOST]


async def test_routes_are_compared_with_the_start_of_a_path_alone() -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope)

    async def receive() -> Message:
        raise AssertionError

    async def send(_message: Message) -> None:
        raise AssertionError

    for path in ("/" * 60_000, "/runs"):
        await BoundedHeads(app)({"type": "http", "path": path, "headers": []}, receive, send)

    assert [scope["path"] for scope in seen] == ["/" * MAX_PATH_CHARS, "/runs"]
