"""The mapping from a file's columns to the fields of runs, from options and from the columns' names, and what each was used for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from runtally.client.fields import FIELDS, Field, automatic, excluded_from, is_telling, squashed
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


_LONGEST_LIST: Final = 40
# Rows of JSONL may each have columns of their own; their plans must not pile up.
_MOST_PLANS: Final = 1000

Plan = dict[Field, tuple[Link, ...]]
"""The links of each field, the first one with a value wins; those of the metadata all count."""


class ColumnPlanner:
    """Plans for each set of columns once: all rows of a CSV file share one, and the rows of JSONL a few."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._plans: dict[tuple[str, ...], Plan] = {}
        self._linked = {link.column for link in options.links}
        self.used: dict[str, list[str]] = {}
        """The targets of each column that was used."""
        self.ignored: dict[str, None] = {}
        self.doubtful: dict[str, None] = {}
        """Columns that look like tokens, a cost or a time and were not used, though no option says so."""
        self.never_sent: dict[str, None] = {}
        """Ignored columns that are named like content."""

    def plan(self, row: dict[str, Any]) -> Plan:
        columns = tuple(_columns(row))
        plan = self._plans.get(columns)
        if plan is None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            plan = self._plans[columns] = self._new_plan(columns)
            self._remember(row, plan)
        return plan

    def demand_columns(self, row: dict[str, Any]) -> None:
        """Raises `InvalidMapping` if an option names a column that is not in the row: most likely a typing error."""
        for column in (*self._linked, *(column for column, _ in self._options.values)):
            if column not in row:
                raise InvalidMapping(f"There is no column {column!r}; the file has {', '.join(row)[:1000]}.")

    def never_found(self) -> list[str]:
        """Columns that an option names and no row had so far."""
        return sorted(column for column in self._linked if column not in self.used)

    def _new_plan(self, columns: tuple[str, ...]) -> Plan:
        plan: dict[Field, list[Link]] = {}
        for link in self._options.links:
            plan.setdefault(link.field, []).append(link)
        planned = frozenset(plan)
        for column in sorted(columns, key=_alias):
            found = automatic(column)
            if not found or column in self._linked or column in self._options.ignored:
                continue
            field, unit = found
            if field not in planned or field.name == "metadata":
                plan.setdefault(field, []).append(Link(column, field, unit))
        return {field: tuple(self._whole(link, columns) for link in links) for field, links in plan.items()}

    def _whole(self, link: Link, columns: tuple[str, ...]) -> Link:
        """The link, with the columns that have to be added to a count of input."""
        if link.field.name != "input_tokens":
            return link
        left_out = excluded_from(link.column)
        added = (name for name in columns if squashed(name) in left_out and name not in self._options.ignored)
        return replace(link, plus=tuple(added))

    def _remember(self, row: dict[str, Any], plan: Plan) -> None:
        for links in plan.values():
            for link in links:
                for column in (link.column, *link.plus):
                    targets = self.used.setdefault(column, []) if has_column(row, column) else []
                    if link.target not in targets:
                        targets.append(link.target)
        taken = {used.partition(".")[0] for used in self.used} | set(self.used)
        for column in _columns(row):
            if column in self.used or column in self._options.ignored or not is_telling(column.rpartition(".")[2]):
                continue
            # What stands in an object is looked at by itself.
            hidden = isinstance(value_at(row, column), dict) or is_content(
                column.partition(".")[0], self._options.content
            )
            if not hidden:
                self.doubtful.setdefault(column)
        for column in row:
            if column not in taken:
                hidden = is_content(column, self._options.content)
                (self.never_sent if hidden else self.ignored).setdefault(column)


def has_column(row: dict[str, Any], column: str) -> bool:
    """Return whether the row has the column, or the nested path that its dots spell."""
    return column in row or _walk(row, column) is not None


def value_at(row: dict[str, Any], column: str) -> Any:  # noqa: ANN401  # A file holds any JSON value.
    """The value of the column, or at the end of the path that its dots spell; None where there is none."""
    return row[column] if column in row else _walk(row, column)


def _walk(row: dict[str, Any], path: str) -> Any:  # noqa: ANN401  # A file holds any JSON value.
    value: Any = row
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def _columns(row: dict[str, Any]) -> Iterator[str]:
    """The columns of the row, and those in its objects and theirs (`usage.prompt_tokens_details.cached_tokens`)."""
    for column, value in row.items():
        yield column
        if not isinstance(value, dict) or squashed(column) in {"metadata", "units"}:
            continue
        for key, inner in value.items():
            yield f"{column}.{key}"
            if isinstance(inner, dict):
                yield from (f"{column}.{key}.{name}" for name in inner)


def _alias(column: str) -> tuple[bool, bool]:
    """Sorts columns with the field's own name before its other names, and a day behind the times within it."""
    found = automatic(column)
    return found is None or squashed(column) != squashed(found[0].name), squashed(column) == "date"


def listed(columns: Iterable[str]) -> str:
    """The columns in one line that stays readable."""
    names = list(columns)
    more = len(names) - _LONGEST_LIST
    return ", ".join(names[:_LONGEST_LIST]) + (f" and {more} more" if more > 0 else "")
