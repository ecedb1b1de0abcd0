"""A report page refuses a parameter that it does not know, because it would show other runs than it was asked for."""

from urllib.parse import urlencode

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from tests.factories import make_run
from tests.pages.conftest import Post
from tests.pages.looking import html_of, text_of
from tests.pages.test_roles import ROUTES, path_to
from tests.routes import APP
from webapp.project_pages import REPORTS


def path_of(endpoint: str, project_id: str) -> str:
    [rule] = APP.url_map.iter_rules(endpoint)
    return rule.rule.replace("<project_id:project_id>", project_id)


@pytest.mark.parametrize("endpoint", ["overview.overview", *(page.endpoint for page in REPORTS.values())])
async def test_an_unknown_parameter_is_refused_by_name(
    reader: Browser, post: Post, project_id: str, endpoint: str
) -> None:
    await post(make_run())
    path = path_of(endpoint, project_id)

    text = text_of(await html_of(reader, f"{path}?projekt=other", 400))

    assert "This address has a mistake This page has no parameter projekt. Did you mean project?" in text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("modele=gpt-4o", "This page has no parameter modele. Did you mean model?"),
        ("feature=search", "This page has no parameter feature. To filter by metadata, write metadata.feature."),
        ("metadata.=x", "This page has no parameter metadata."),
        ("%3Cscript%3E=1", "The address has a parameter that this page does not have."),
    ],
)
async def test_the_refusal_says_what_to_write(reader: Browser, post: Post, query: str, message: str) -> None:
    await post(make_run())

    text = text_of(await html_of(reader, f"/runs?{query}", 400))

    assert message in text
    assert "script" not in text.partition(message)[2]


@pytest.mark.parametrize("query", ["model=gpt-4o", "metadata.feature=search", "live=1&page=1"])
async def test_known_parameters_are_no_error(reader: Browser, post: Post, query: str) -> None:
    await post(make_run())

    for path in ("/", "/runs"):
        await html_of(reader, f"{path}?{query}")


async def test_a_key_of_metadata_that_is_typed_leads_to_its_filter(reader: Browser) -> None:
    await html_of(reader, "/?metadata=feature%3Dsearch")

    answer = await reader.get("/runs?metadata=feature%3Dsearch")

    assert (answer.status_code, answer.headers["Location"]) == (303, "/runs?metadataKey=feature&metadataValue=search")


OPTIONS = (
    "by",
    "chart",
    "group",
    "value",
    "metric",
    "sort",
    "compare",
    "range",
    "since",
    "until",
    "metadata.a",
    "user",
    "q",
    "page",
    "before",
)


async def test_no_value_of_a_parameter_is_an_error_of_ours(
    app: Quart, reader: Browser, post: Post, project_id: str
) -> None:
    await post(make_run())
    paths = [
        path_to(app, name, project_id)
        for name, (method, rule) in ROUTES.items()
        if method == "GET"
        and (rule.rule.startswith("/charts/") or rule.endpoint in {page.endpoint for page in REPORTS.values()})
    ]
    assert len(paths) > 15

    statuses = {}
    for path in paths:
        for option in OPTIONS:
            query = urlencode({"project": project_id, option: "a\0b"})
            statuses[path, option] = (await reader.get(f"{path}?{query}")).status_code

    assert {asked: status for asked, status in statuses.items() if status >= 500} == {}
