"""Identifiers that the service creates, and those of projects in the paths of pages."""

import os
import re
import threading
import time
import uuid
from struct import Struct
from urllib.parse import quote

_lock = threading.Lock()
_last = 0
# Asking the system for random bytes takes longer than all the rest, so they are fetched for many ids at once.
_FETCHED = Struct("=512Q")
_random: list[int] = []


def uuid7() -> uuid.UUID:
    """Return a UUIDv7 (RFC 9562) that is greater than every earlier one of this process."""
    return uuid.UUID(int=_next())


def uuid7_text() -> str:
    """Return a UUIDv7 as text, twice as fast: every run without an id gets one."""
    digits = f"{_next():032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def uuid7_digits() -> str:
    """Return the 32 digits of a UUIDv7."""
    return f"{_next():032x}"


def _next() -> int:
    """Return the next UUIDv7 as a number.

    The 12 bits after the milliseconds hold the fraction of the millisecond (method 3 of section 6.2), so ids of one
    batch keep their order and are inserted at the right-hand edge of an index.
    """
    global _last  # noqa: PLW0603  # The monotonic counter is what this module is for.
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    stamp = (milliseconds << 12) | (rest * 4096 // 1_000_000)
    with _lock:
        _last = stamp = max(stamp, _last + 1)
        if not _random:
            _random.extend(_FETCHED.unpack(os.urandom(_FETCHED.size)))
        taken = _random.pop()
    return (stamp >> 12) << 80 | 0x7 << 76 | (stamp & 0xFFF) << 64 | 0b10 << 62 | taken >> 2


def _forget_random() -> None:
    """Drop the fetched numbers in a process that was forked: its parent uses the same ones."""
    _random.clear()


os.register_at_fork(after_in_child=_forget_random)


# Browsers resolve dots in paths, however they are escaped; a word would be taken for a page of the project.
_TAKEN = re.compile(r"~*(?:\.{1,2}|settings|send|runs|traces|costs)")
_HIDDEN = re.compile(r"~+(?:\.{1,2}|settings|send|runs|traces|costs)")


def path_of(project_id: str) -> str:
    """Return the id as part of a path, with its slashes; `id_in` reads it back."""
    return quote("/".join(f"~{part}" if _TAKEN.fullmatch(part) else part for part in project_id.split("/")))


def id_in(path: str) -> str:
    """Return the id in a path whose percent signs are already decoded."""
    return "/".join(part[1:] if _HIDDEN.fullmatch(part) else part for part in path.split("/"))
