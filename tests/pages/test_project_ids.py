"""What can be no project has no page; and no project is not all projects."""

import pytest
from quart.typing import TestClientProtocol as Browser

NO_PROJECT = ["%00", "a%00b", "%20", "x" * 129]


@pytest.mark.parametrize("path", ["/projects/{}", "/projects/{}/settings", "/charts/cost.json?project={}"])
@pytest.mark.parametrize("project_id", NO_PROJECT)
async def test_an_invalid_project_id_is_not_found(reader: Browser, path: str, project_id: str) -> None:
    assert (await reader.get(path.format(project_id))).status_code == 404


async def test_the_chart_of_no_project_is_not_that_of_all_projects(reader: Browser) -> None:
    assert (await reader.get("/charts/cost.json?project=")).status_code == 404
    assert (await reader.get("/charts/cost.json")).status_code == 200


@pytest.mark.parametrize("path", ["/runs?project=%00", "/experiments?project=%00", "/admin/audit?project=%00"])
async def test_a_filter_by_an_invalid_project_id_is_no_server_error(reader: Browser, path: str) -> None:
    assert (await reader.get(path)).status_code < 500
