"""Compress bodies for clients that accept it."""

import gzip
from functools import lru_cache

from werkzeug.datastructures import Accept
from werkzeug.http import parse_accept_header

# A smaller body gains little by compression.
MIN_COMPRESSED = 1024
# Clients send few different headers.
_KEPT_HEADERS = 64


@lru_cache(_KEPT_HEADERS)
def takes_gzip(accept_encoding: str | None) -> bool:
    return parse_accept_header(accept_encoding, Accept).quality("gzip") > 0


def gzipped(body: bytes) -> bytes | None:
    """Compress a body; None if it is too small to gain by it."""
    return gzip.compress(body, compresslevel=5, mtime=0) if len(body) >= MIN_COMPRESSED else None
