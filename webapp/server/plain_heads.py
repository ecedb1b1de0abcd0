"""Read heads of requests that every program reads alike; parsers of HTTP are for all others.

Such a head is short, has each header once, and none that changes how a body is sent or what a connection is for. So it
needs none of the limits of larger ones.
"""

import re
from typing import NamedTuple
from urllib.parse import unquote

MAX_BYTES = 2048
"""No longer than the values that `heads.bounded` leaves as they are."""
# A name, as the labels that DNS allows, or an address; Quart fails on any other.
HOST = re.compile(rb"(?:[\w-]{1,63}(?:\.[\w-]{1,63})*\.?|\[[\da-fA-F:.]+\])?(?::\d*)?")
_HEAD = re.compile(
    rb"(GET|POST) (/[\w/.~%-]*)(?:\?([!\"$-~]*))? HTTP/1\.([01])\r\n"
    rb"((?:[\w-]+:[\t ]*(?:[!-~]+(?:[\t ]+[!-~]+)*)?\r\n)+)\r\n"
)
_LENGTH = re.compile(rb"\d{1,9}")
_UNUSUAL = {b"expect", b"proxy-connection", b"trailer", b"transfer-encoding", b"upgrade"}


class PlainHead(NamedTuple):
    """A head, of which a connection needs no more to find the end of its request."""

    method: bytes
    raw_path: bytes
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    length: int
    """The bytes of the body."""
    keeps: bool
    """Whether the connection is kept after the answer."""


def plain_head(head: bytes) -> PlainHead | None:
    """Return the head that these bytes are, up to its empty line; None if they are not plain. In linear time."""
    found = _HEAD.fullmatch(head)
    if found is None:
        return None
    method, raw_path, query, version, lines = found.groups()
    fields = (line.partition(b":") for line in lines.splitlines())
    headers = [(name.lower(), value.lstrip(b"\t ")) for name, _, value in fields]
    values = dict(headers)
    connection = values.get(b"connection", b"keep-alive").lower()
    length = values.get(b"content-length", b"0")
    is_plain = (
        len(values) == len(headers)
        and not values.keys() & _UNUSUAL
        and b"host" in values
        and HOST.fullmatch(values[b"host"]) is not None
        and connection in {b"keep-alive", b"close"}
        and _LENGTH.fullmatch(length) is not None
        and (method == b"POST" or length == b"0")
    )
    if not is_plain:
        return None
    path = raw_path.decode()
    keeps = version == b"1" and connection == b"keep-alive"
    return PlainHead(method, raw_path, unquote(path), query or b"", headers, int(length), keeps)
