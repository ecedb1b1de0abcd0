"""What a route takes and answers, declared at its view. The OpenAPI document is made of these and of nothing else.

The first line of the view's docstring is the summary, the rest the description; who may call it is its access rule.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from runtally.errors import RuntallyError

JSON = "application/json"

_ATTRIBUTE = "__operation__"

View = TypeVar("View", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Content:
    """A body: the types that are decoded or encoded, of which it has one, and examples by their titles."""

    types: tuple[Any, ...]
    examples: Mapping[str, object] = field(default_factory=dict)
    media_type: str = JSON
    also_as: tuple[str, ...] = ()
    """Media types that it may have instead, of which no more is said."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One status of an operation: when it is given, and with what."""

    meaning: str
    contents: tuple[Content, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers beyond those that every answer has, each with its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path. Parameters are the fields of a struct, which is named after nothing on the wire."""

    tag: str
    answers: Mapping[int, Answer]
    raises: tuple[type[RuntallyError], ...] = ()
    """Beyond what the access rule raises and what every operation can meet."""
    body: Content | None = None
    failure: Content | None = None
    """How it says what went wrong, if not as all others do."""
    path: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] | None = None
    headers: type[msgspec.Struct] | None = None


def documents(operation: Operation) -> Callable[[View], View]:
    """Declare what a view takes and answers; below the route decorator."""

    def declared(view: View) -> View:
        setattr(view, _ATTRIBUTE, operation)
        return view

    return declared


def operation_of(view: Callable[..., object]) -> Operation | None:
    found = getattr(view, _ATTRIBUTE, None)
    return found if isinstance(found, Operation) else None
