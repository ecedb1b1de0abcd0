"""What the current request may use."""

from typing import cast

from quart import current_app, g

from runtally.audit import ANYONE, Actor
from runtally.services import Services

EXTENSION = "runtally"


def services() -> Services:
    return cast(Services, current_app.extensions[EXTENSION])


def actor() -> Actor:
    """Whoever makes this request, as the access hook found out; anyone, until it has."""
    return cast(Actor, g.get("actor", ANYONE))


def request_id() -> str:
    return cast(str, g.request_id)
