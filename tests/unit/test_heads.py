"""Long headers are not there; of long cookies our own are."""

import pytest

from webapp.heads import MAX_VALUE_BYTES, Header, bounded
from webapp.rendering import THEME_COOKIE
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
