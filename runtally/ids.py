"""Identifiers that the service makes itself."""

import os
import threading
import time
import uuid

_lock = threading.Lock()
_last = 0


def uuid7() -> uuid.UUID:
    """A UUIDv7 (RFC 9562) that is greater than every one made before it in this process.

    The 12 bits after the milliseconds carry the fraction of the millisecond (method 3 of section 6.2), so ids made in
    one batch keep their order and land at the right-hand edge of an index.
    """
    global _last  # noqa: PLW0603  # The monotonic counter is what this module is for.
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    stamp = (milliseconds << 12) | (rest * 4096 // 1_000_000)
    with _lock:
        _last = stamp = max(stamp, _last + 1)
    value = (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0b10 << 62 | int.from_bytes(os.urandom(8)) >> 2
    return uuid.UUID(int=value)
