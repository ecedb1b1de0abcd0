"""Declare at a view what its route takes and answers. The OpenAPI document is generated from these declarations alone.

The first line of the view's docstring is the summary, the rest the description; its access rule says who may call it.
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
    """A request or response body: its types, and examples by title."""

    types: tuple[Any, ...]
    examples: Mapping[str, object] = field(default_factory=dict)
    media_type: str = JSON
    also_as: tuple[str, ...] = ()
    """Other media types that it may have, without a description."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A possible response of an operation: its status, its meaning and its body."""

    meaning: str
    contents: tuple[Content, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers besides those that every answer has, each with its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The documentation of one method of one path. Parameters are the fields of a struct, whose name is not on the wire."""

    tag: str
    answers: Mapping[int, Answer]
    raises: tuple[type[RuntallyError], ...] = ()
    """Errors besides those of the access rule and those of every operation."""
    body: Content | None = None
    failure: Content | None = None
    """The form of errors, if it differs from that of all other operations."""
    path: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] | None = None
    headers: type[msgspec.Struct] | None = None


def documents(operation: Operation) -> Callable[[View], View]:
    """Declare what a view takes and answers; place it below the route decorator."""

    def declared(view: View) -> View:
        setattr(view, _ATTRIBUTE, operation)
        return view

    return declared


def operation_of(view: Callable[..., object]) -> Operation | None:
    found = getattr(view, _ATTRIBUTE, None)
    return found if isinstance(found, Operation) else None
