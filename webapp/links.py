"""Every URL of the pages that carries state, and how that state is read back from one."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from quart import url_for
from werkzeug.routing import BaseConverter

from runtally.metrics.window import Range
from webapp.charts.series import Split

Choice = TypeVar("Choice", bound=StrEnum)

# A browser resolves these segments of a path itself, however they are escaped.
_DOTS = re.compile(r"~*\.{1,2}")
_HIDDEN_DOTS = re.compile(r"~+\.{1,2}")


class Metric(StrEnum):
    """What a chart shows over time."""

    COST = "cost"
    RUNS = "runs"
    ERRORS = "errors"
    LATENCY = "latency"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class View:
    """What a page shows: which project (None: the overview), how far back, which metric, cost split by what."""

    project_id: str | None = None
    range: Range = Range.WEEK
    metric: Metric = Metric.COST
    by: Split = Split.MODEL

    @classmethod
    def parse(cls, query: Mapping[str, str], project_id: str | None = None) -> "View":
        """The view that a query string asks for. What it mistypes is as if it were not there: a page still shows."""
        plain = cls()
        return cls(
            project_id,
            _choice(Range, query.get("range"), plain.range),
            _choice(Metric, query.get("metric"), plain.metric),
            _choice(Split, query.get("by"), plain.by),
        )

    def but(self, **changes: Any) -> "View":  # noqa: ANN401  # Any field of the view.
        return replace(self, **changes)

    @property
    def url(self) -> str:
        query = self._query("range", "metric", "by")
        if self.project_id is None:
            return url_for("overview.overview", **query)
        return url_for("project.project", project_id=self.project_id, **query)

    def chart_url(self, metric: Metric, of_project: str | None) -> str:
        """Where the browser gets what it draws."""
        return url_for("charts.chart", name=metric.value, project=of_project, **self._query("range", "by"))

    def _query(self, *names: str) -> dict[str, Any]:
        """What of these differs from a plain visit, so that plain URLs stay plain."""
        plain = View()
        return {name: getattr(self, name).value for name in names if getattr(self, name) != getattr(plain, name)}


class ProjectIdConverter(BaseConverter):
    """A project id in a path: any text, slashes at any place and dots included."""

    part_isolating = False
    regex = r"[\s\S]+"
    weight = 200

    def to_python(self, value: str) -> str:
        return "/".join(part[1:] if _HIDDEN_DOTS.fullmatch(part) else part for part in value.split("/"))

    def to_url(self, value: str) -> str:
        return quote("/".join(f"~{part}" if _DOTS.fullmatch(part) else part for part in value.split("/")))


def safe_path(target: str | None) -> str:
    """The target if it is a page of this site, else the overview: a link may not lead from here to elsewhere."""
    if not target or not target.startswith("/") or target.startswith(("//", "/\\")) or not target.isprintable():
        return url_for("overview.overview")
    parts = urlsplit(target)
    return target if not parts.scheme and not parts.netloc else url_for("overview.overview")


def _choice(choices: type[Choice], text: str | None, otherwise: Choice) -> Choice:
    try:
        return choices(text) if text else otherwise
    except ValueError:
        return otherwise
