"""Choose the field that each column of a file fills, and record what each column was used for."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from runtally.client.fields import Field, automatic, excluded_from, is_telling, squashed
from runtally.client.mapping import Link, Options, is_content
from runtally.client.run import InvalidMapping

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
