"""The mapping from a file's columns to the fields of runs, from options and from the columns' names."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Final

from runtally.client.fields import FIELDS, Field, squashed
from runtally.client.run import InvalidMapping
from runtally.client.values import UNITS, UNIX_EPOCH, Kind
from runtally.privacy import ContentRule

_METADATA: Final = "metadata."


@dataclass(frozen=True, slots=True)
class Link:
    """A column and what it fills: a field in a unit, or a key of the metadata."""

    column: str
    field: Field
    unit: str | None = None
    metadata_key: str | None = None
    plus: tuple[str, ...] = ()
    """Columns whose counts are added, because this one leaves them out."""

    @property
    def target(self) -> str:
        """The mapping in the syntax of `--map`."""
        name = f"{_METADATA}{self.metadata_key}" if self.metadata_key else self.field.wire
        return f"{name}:{self.unit}" if self.unit else name


@dataclass(frozen=True, slots=True)
class Options:
    """The mapping options of one import, checked."""

    content: ContentRule
    links: tuple[Link, ...] = ()
    constants: dict[str, str] = field(default_factory=dict)
    """Values by the field's Python name or `metadata.KEY`, used instead of the file's."""
    fallbacks: dict[str, str] = field(default_factory=dict)
    """Values by field, for rows that have none."""
    values: dict[tuple[str, str], str] = field(default_factory=dict)
    """Replacements of values, by column."""
    ignored: frozenset[str] = frozenset()
    allow_empty: bool = False
    """Whether a call that did not fail may be without tokens and cost."""
    format: str = ""
    """The name of the file's format, or `columns` for none; found by its columns if it is empty."""
    decimal_comma: bool = False
    """Whether numbers are written as 1.234,5."""
    zone: tzinfo = UTC
    """The zone of times that are written without one."""
    epoch: datetime = UNIX_EPOCH
    """The start of times that are counted in a unit."""


def parse_links(options: Iterable[str], content: ContentRule) -> tuple[Link, ...]:
    """`COLUMN=FIELD[:UNIT]` or `COLUMN=metadata.KEY`. Raises `InvalidMapping`, also for columns that hold content."""
    return tuple(_link(option, content) for option in options)


def parse_values(options: Iterable[str]) -> dict[tuple[str, str], str]:
    """`COLUMN:VALUE=OTHER`; an empty OTHER means no value. Raises `InvalidMapping`."""
    replaced = {}
    for option in options:
        found, equals, other = option.rpartition("=")
        column, colon, value = found.partition(":")
        if not (equals and colon and column):
            raise InvalidMapping(f"Write --value COLUMN:VALUE=OTHER instead of {option!r}.")
        replaced[column, value] = other
    return replaced


def parse_constants(name: str, options: Iterable[str], content: ContentRule) -> dict[str, str]:
    """`FIELD=VALUE` or `metadata.KEY=VALUE` of the option `name`. Raises `InvalidMapping`."""
    constants = {}
    for option in options:
        target, equals, value = option.partition("=")
        if not (equals and target and value):
            raise InvalidMapping(f"Write {name} FIELD=VALUE instead of {option!r}.")
        if target.startswith(_METADATA):
            constants[_METADATA + _metadata_key(target, content)] = value
        else:
            constants[_field(target).name] = value
    return constants


def is_content(column: str, content: ContentRule) -> bool:
    """Return whether the column is named like content, such as a prompt or an answer, in any spelling."""
    return content.scrub({column: None}).dropped


def _link(option: str, content: ContentRule) -> Link:
    column, equals, target = option.rpartition("=")
    if not (equals and column and target):
        raise InvalidMapping(f"Write --map COLUMN=FIELD instead of {option!r}.")
    if target.startswith(_METADATA):
        _refuse_content(column, column.split("."), content)
        return Link(column, FIELDS["metadata"], metadata_key=_metadata_key(target, content))
    name, _, unit = target.partition(":")
    link = Link(column, _field(name), unit or None)
    units = UNITS.get(link.field.kind, {})
    if link.unit and link.unit not in units:
        raise InvalidMapping(
            f"{link.field.wire} has the units {', '.join(units)}." if units else f"{name} has no unit."
        )
    if not link.field.kind.is_number:
        # The last part decides: `response.id` is an id, `response.text` is not.
        _refuse_content(column, column.split(".")[-1:], content)
    return link


def _refuse_content(column: str, parts: list[str], content: ContentRule) -> None:
    if any(is_content(part, content) for part in parts):
        raise InvalidMapping(
            f"Column {column!r} is named like content, and prompts and answers are never sent; leave it out, "
            "or map it to a number such as inputTokens."
        )


def _field(name: str) -> Field:
    known = FIELDS.get(squashed(name))
    if known is None or known.kind is Kind.OBJECT:
        fields = ", ".join(field.wire for field in FIELDS.values() if field.kind is not Kind.OBJECT)
        raise InvalidMapping(f"A run has no field {name!r}; it has {fields} and metadata.KEY.")
    return known


def _metadata_key(target: str, content: ContentRule) -> str:
    key = target.removeprefix(_METADATA)
    if not key or is_content(key, content):
        raise InvalidMapping(f"Metadata takes no {key!r}: it is for labels, never for prompts or answers.")
    return key
