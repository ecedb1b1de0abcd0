"""Passwords: their rules, and hashing and checking them with Argon2.

Argon2id with the parameters of RFC 9106 for machines that also do something else: 64 MiB and three passes, about 0.1 s.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from runtally.errors import Detail, InvalidUser, PasswordsBusy

MIN_LENGTH = 12
# So that nobody has the server hash a novel.
MAX_LENGTH = 256
# Each takes 64 MiB: a burst of sign-ins waits instead of filling the memory.
MAX_AT_ONCE = 2
# Hashes that run or wait, in this process: the last one waits for about a second. Further requests are refused at once.
MAX_UNDER_WAY = 16
# The limit is for one address, so that somebody who tries hundreds of passwords at once keeps nobody else out.
MAX_OF_ONE_SOURCE = 4

NONE = "none"
"""The hash of users without a password, who sign in by other means: it matches no password."""

_Result = TypeVar("_Result")

_hasher = PasswordHasher()
_threads = ThreadPoolExecutor(MAX_AT_ONCE, "passwords")
under_way: Counter[str] = Counter()
# Compared with where there is no such user, so that the time of an answer does not tell who has an account.
_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$Ps+/Zqso26Hy0CgSdgoG/Q$kSK80kigIYTjzoG+CojUONYEJ+3Iher72RhrXBAY9oE"


def check(password: str, email: str) -> None:
    """Raises `InvalidUser` for a password that is easily guessed or too long."""
    if len(password) < MIN_LENGTH:
        raise _refused(f"Use at least {MIN_LENGTH} characters; several words in a row are easy to remember.")
    if len(password) > MAX_LENGTH:
        raise _refused(f"Use at most {MAX_LENGTH} characters.")
    if len(set(password)) < MIN_LENGTH // 2 or password.casefold() == email:
        raise _refused("Use something that is harder to guess.")


async def hashed(password: str, source: str = "") -> str:
    """Return the hash to store. `source` is the address that sent the password. Raises `PasswordsBusy`."""
    return await _computed(source, lambda: _hasher.hash(password))


async def is_right(password: str, hash_: str | None, source: str = "") -> bool:
    """Return whether the password matches the hash. None stands for an unknown user; it, and `NONE`, take as long.

    `source` is the address that sent the password. Raises `PasswordsBusy`.
    """
    if not 0 < len(password) <= MAX_LENGTH:
        return False
    return await _computed(source, lambda: _verified(password, hash_))


def refuse_when_busy(source: str) -> None:
    """Raises `PasswordsBusy` where a password from this address would be refused now."""
    if under_way.total() >= MAX_UNDER_WAY or under_way[source] >= MAX_OF_ONE_SOURCE:
        raise PasswordsBusy


def is_outdated(hash_: str) -> bool:
    """Return whether the hash was made with other parameters than today's."""
    return _hasher.check_needs_rehash(hash_)


async def _computed(source: str, compute: Callable[[], _Result]) -> _Result:
    refuse_when_busy(source)
    under_way[source] += 1
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads, compute)
    finally:
        under_way[source] -= 1
        if not under_way[source]:
            del under_way[source]


def _verified(password: str, hash_: str | None) -> bool:
    has_password = hash_ not in {None, NONE}
    try:
        return _hasher.verify(hash_ if hash_ and has_password else _NOBODY, password) and has_password
    except (VerificationError, InvalidHashError):
        return False


def _refused(why: str) -> InvalidUser:
    return InvalidUser(details=(Detail("password", why),))
