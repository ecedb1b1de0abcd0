"""Addresses that are put together here equal those that Quart makes."""

from uuid import UUID

import pytest
from quart import Quart, url_for

from runtally.usage.dimensions import DIMENSIONS, NO_VALUE, OTHER, dimension_of_key
from runtally.usage.filter import RunFilter
from webapp.addresses import address_of, path_to
from webapp.charts.metrics import Metric
from webapp.pages.panel.narrowing import toggled, value_urls
from webapp.view import View

ODD = "a/b c&d=e?f#g%h+\u00e9'\"<>~:;,@!$()*"


@pytest.mark.parametrize("root_path", ["", "/behind/a/proxy"])
async def test_they_are_those_that_quart_makes(app: Quart, root_path: str) -> None:
    query = {"model": ODD, "project": None, "range": "30d", "page": 2}
    async with app.test_request_context("/", root_path=root_path):
        for project_id in ("plain", ODD, "settings", "..", "a//b/"):
            expected = url_for("project.project", project_id=project_id, **query)  # type: ignore[arg-type]  # Of the query.
            assert address_of("project.project", query, project_id=project_id) == expected
            assert address_of("project.project", {}, project_id=project_id) == path_to(
                "project.project", project_id=project_id
            )
        assert path_to("overview.overview") == url_for("overview.overview")


@pytest.mark.parametrize("chosen", [{}, {"user": "ann", "status": "error", "metadata.team": "b"}])
async def test_those_of_many_values_are_those_of_each(app: Quart, chosen: dict[str, str]) -> None:
    view = View("one & two", filter=RunFilter.parse(chosen), metric=Metric.RUNS)
    values = [
        "ann",
        "b",
        "",
        " ",
        "two words",
        " before",
        "after\u00a0",
        ODD,
        "x" * 300,
        "\0",
        "error",
        NO_VALUE,
        OTHER,
        str(UUID(int=7)),
    ]
    async with app.test_request_context("/"):
        for dimension in (*DIMENSIONS.values(), dimension_of_key("team"), dimension_of_key("some-value")):
            url_of = value_urls(view, dimension)
            assert list(map(url_of, values)) == [toggled(view, dimension, value) for value in values], dimension
