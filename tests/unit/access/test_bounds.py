"""What people may type about themselves: at each limit, and one past it."""

from collections.abc import Callable

import pytest

from runtally.access import passwords
from runtally.access.users import parse_email, parse_name
from runtally.errors import InvalidUser

DOMAIN = "@example.com"
Check = Callable[[str], object]


def check_password(text: str) -> None:
    passwords.check(text, "ada@example.com")


LIMITS: dict[str, tuple[Check, str, str]] = {
    "shortest password": (check_password, "abcdefghijkl", "abcdefghijk"),
    "longest password": (check_password, "abcdefgh" * 32, "abcdefgh" * 32 + "a"),
    "fewest different characters": (check_password, "abcdef" * 2, "abcde" * 3),
    "longest address": (parse_email, "a" * (254 - len(DOMAIN)) + DOMAIN, "a" * (255 - len(DOMAIN)) + DOMAIN),
    "longest name": (parse_name, "a" * 128, "a" * 129),
    "shortest name": (parse_name, " a ", "  "),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_value_at_its_limit_is_accepted_and_one_above_is_refused(limit: str) -> None:
    check, at, past = LIMITS[limit]

    check(at)
    with pytest.raises(InvalidUser):
        check(past)
