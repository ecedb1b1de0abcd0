"""The run explorer's state, and its URLs: which runs, which columns, from where on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from quart import url_for

from runtally.paths import path_of
from runtally.runs.export import Format
from runtally.runs.position import Direction, Place
from runtally.usage.filter import RunFilter
from webapp.addresses import path_to

_SOME_RUN = "some-run"


class Column(StrEnum):
    """What a list of runs can show besides their time."""

    PROJECT = "project"
    PROVIDER = "provider"
    MODEL = "model"
    STATUS = "status"
    TOKENS_IN = "tokensIn"
    TOKENS_OUT = "tokensOut"
    CACHED = "cached"
    LATENCY = "latency"
    EXPERIMENT = "experiment"
    TRACE = "trace"
    RUN = "run"
    COST = "cost"


HEADINGS = {
    Column.PROJECT: "Project",
    Column.PROVIDER: "Provider",
    Column.MODEL: "Model",
    Column.STATUS: "Status",
    Column.TOKENS_IN: "Tokens in",
    Column.TOKENS_OUT: "Tokens out",
    Column.CACHED: "Cached",
    Column.LATENCY: "Latency",
    Column.EXPERIMENT: "Experiment",
    Column.TRACE: "Trace",
    Column.RUN: "Run id",
    Column.COST: "Cost",
}
NUMBERS = frozenset({Column.TOKENS_IN, Column.TOKENS_OUT, Column.CACHED, Column.LATENCY, Column.COST})
_HIDDEN_AT_FIRST = frozenset({Column.PROVIDER, Column.CACHED, Column.EXPERIMENT, Column.TRACE, Column.RUN})


@dataclass(frozen=True, slots=True)
class RunsView:
    """What the explorer shows."""

    sought: RunFilter
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, sought: RunFilter, chosen: Sequence[str]) -> "RunsView":
        """With the columns of these names, or the usual ones; what is no column is as if it were not there."""
        columns = tuple(column for column in Column if column.value in chosen)
        return cls(sought, columns or _usual(sought))

    def but(self, **changes: Any) -> "RunsView":  # noqa: ANN401  # Any field of the filter.
        sought = self.sought.replace(**changes)
        # The usual columns depend on whether there is one project to see.
        columns = _usual(sought) if self.columns == _usual(self.sought) else self.columns
        return replace(self, sought=sought, columns=columns)

    def without(self, *names: str) -> "RunsView":
        plain = self.sought.without(*names)
        return self.but(**{name: getattr(plain, name) for name in names})

    def url(self, direction: Direction | None = None, place: Place | None = None) -> str:
        """From a place on, or from the newest run."""
        query: dict[str, Any] = dict(self._query)
        if direction is not None and place is not None:
            query[direction.value] = place.token
        return url_for("runs.explorer", **query)

    def export_url(self, format_: Format) -> str:
        query: dict[str, Any] = self.sought.query
        return url_for("runs.export_runs", name=format_.value, **query)

    @property
    def _query(self) -> Mapping[str, Any]:
        if self.columns == _usual(self.sought):
            return self.sought.query
        return {**self.sought.query, "column": [column.value for column in self.columns]}


def run_url(project_id: str, run_id: str) -> str:
    # Of one project there are many on a page.
    before = path_to("run.run", project_id=project_id, run_id=_SOME_RUN).removesuffix(_SOME_RUN)
    return f"{before}{path_of(run_id)}"


def trace_url(project_id: str, trace_id: str) -> str:
    return url_for("run.trace", project_id=project_id, trace_id=trace_id)


def runs_url(**fields: Any) -> str:  # noqa: ANN401  # Any field of the filter.
    """The explorer with this filter."""
    sought = RunFilter(**fields)
    return RunsView(sought, _usual(sought)).url()


def _usual(sought: RunFilter) -> tuple[Column, ...]:
    hidden = _HIDDEN_AT_FIRST if sought.project_id is None else _HIDDEN_AT_FIRST | {Column.PROJECT}
    return tuple(column for column in Column if column not in hidden)
