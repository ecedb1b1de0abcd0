"""Addresses that are put together here, beside those that Quart makes."""

import pytest
from quart import Quart, url_for

from webapp.addresses import address_of, path_to

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
