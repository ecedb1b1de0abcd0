"""Compressed bodies, for clients that take them."""

import gzip
from functools import lru_cache

from werkzeug.datastructures import Accept
from werkzeug.http import parse_accept_header

# Below this a compressed body is hardly smaller than the headers around it.
MIN_COMPRESSED = 1024
# Clients send few different ones.
_KEPT_HEADERS = 64


@lru_cache(_KEPT_HEADERS)
def takes_gzip(accept_encoding: str | None) -> bool:
    return parse_accept_header(accept_encoding, Accept).quality("gzip") > 0


def gzipped(body: bytes) -> bytes | None:
    """None for what is too small to gain by it."""
    return gzip.compress(body, compresslevel=5, mtime=0) if len(body) >= MIN_COMPRESSED else None
