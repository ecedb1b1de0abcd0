"""Why cost changed, in one card of overview and project."""

from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.access.scopes import Scope
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn, ago
from tests.pages.looking import Outline, html_of, part_of, text_of
from webapp.formats import NOTHING


@pytest.fixture
async def doubled(post: Post, project_id: str) -> str:
    """A project whose cost rose, mostly by one user's chats, and that reaches back to the period before."""
    of_chat = {"metadata": {"feature": "chat", "release": "2", "user": "amy"}}
    await post(
        make_run(timestamp=ago(days=20)),
        make_run(timestamp=ago(days=9), **of_chat),
        make_run(timestamp=ago(days=9), metadata={"feature": "search", "user": "bob"}),
        *(make_run(timestamp=ago(days=1), **of_chat) for _ in range(4)),
        make_run(timestamp=ago(days=1), metadata={"feature": "search", "user": "bob"}),
    )
    return project_id


def links(html: str) -> dict[str, str]:
    """The address of each row, by its name."""
    found = {}
    for row in html.split('<a class="why-name"')[1:]:
        found[text_of("<a" + row.partition("</a>")[0])] = unescape(row.split('href="', 1)[1].split('"', 1)[0])
    return found


async def test_each_dimension_names_what_changed_most_with_its_parts(reader: Browser, doubled: str) -> None:
    html = await part_of(reader, f"/why?project={doubled}")

    text = text_of(html)
    assert "Cost is $0.0315 more than in the previous period." in text
    assert "Feature chat" in text
    assert "User amy" in text
    assert "not used before" not in text
    assert f"more runs +$0.0315 {NOTHING} {NOTHING} +$0.0315" in text


async def test_each_row_opens_its_comparison(reader: Browser, doubled: str) -> None:
    url = urlsplit(links(await part_of(reader, f"/why?project={doubled}"))["amy"])
    assert (url.path, parse_qs(url.query)) == (f"/projects/{doubled}/compare", {"by": ["user"], "value": ["amy"]})
    compared = text_of(await html_of(reader, url.geturl()))
    assert "User amy" in compared


async def test_the_page_asks_for_it_once_a_reader_comes_to_it(reader: Browser, doubled: str) -> None:
    html = await html_of(reader, f"/projects/{doubled}")

    [card] = [one for one in Outline(html, is_whole=False).all("section") if "why-card" in (one["class"] or "")]
    assert card["hx-get"] == f"/why?project={doubled}"
    assert card["hx-trigger"] == "intersect once"
    assert f'<a href="/why?project={doubled}">' in html


async def test_nothing_on_the_overview_of_one_project_is_closed_to_its_reader(signed_in: SignIn, doubled: str) -> None:
    browser = await signed_in(doubled)
    outline = Outline(await html_of(browser, "/"))

    named = ("href", "hx-get", "data-chart-src")
    elements = [one for tag in ("a", "section", "div") for one in outline.all(tag)]
    addresses = {one[name] for one in elements for name in named if (one.get(name) or "").startswith("/")}
    answers = {address: (await browser.get(address or "")).status_code for address in addresses}

    assert answers["/why"] == 200
    assert {address for address, status in answers.items() if status == 403} == set()


async def test_other_runs_have_another_card(reader: Browser, doubled: str) -> None:
    pages = [await html_of(reader, f"/projects/{doubled}{query}") for query in ("", "?provider=acme")]

    cards = [one["id"] for html in pages for one in Outline(html, is_whole=False).all("section") if "hx-get" in one]
    assert len(set(cards)) == len(cards) == 2


async def test_a_filter_is_kept_and_is_no_cause_itself(reader: Browser, doubled: str) -> None:
    html = await part_of(reader, f"/why?project={doubled}&user=amy")

    assert links(html).keys() == {make_run()["model"], "chat", "2"}
    assert all("user=amy" in url for url in links(html).values())


async def test_over_all_projects_rows_narrow_the_page(reader: Browser, post: Post, doubled: str) -> None:
    name, model = f"of-{doubled}", make_run()["model"]
    await post(*(make_run(experimentId=name, timestamp=ago(days=age)) for age in (20, 9, 1, 2)))

    assert links(await part_of(reader, f"/why?experiment={name}")) == {model: f"/?model={model}&experiment={name}"}


async def test_a_user_who_is_new_is_named_before_many_who_spend_little(
    reader: Browser, post: Post, project_id: str
) -> None:
    def run(days: int, dollars: float, user: str) -> dict[str, Any]:
        return make_run(timestamp=ago(days=days), provider="zeta", model="z1", costUSD=dollars, userId=user)

    await post(
        *(run(days, 1, "ada") for days in (8, 9, 15)),
        *(run(1, 2, user) for user in ("ada", "bob")),
        *(run(1, 0.1, f"few-{number}") for number in range(6)),
    )

    text = text_of(await part_of(reader, f"/why?project={project_id}"))

    assert "Cost is $2.60 more than in the previous period." in text
    assert f"User bob not used before not used before +$2.00 {NOTHING} {NOTHING} +$2.00" in text


@pytest.mark.parametrize("earlier", [1, 8])
async def test_a_release_that_took_the_place_of_others_comes_last(
    reader: Browser, post: Post, project_id: str, earlier: int
) -> None:
    def run(days: int, dollars: float, release: str) -> dict[str, Any]:
        metadata = {"feature": "chat", "release": release}
        return make_run(timestamp=ago(days=days), provider="zeta", model="z1", costUSD=dollars, metadata=metadata)

    await post(run(15, 4, "0"), *(run(9, 4 / earlier, f"0.{number}") for number in range(earlier)), run(1, 5, "2"))

    html = await part_of(reader, f"/why?project={project_id}")

    assert list(links(html)) == ["z1", "chat", "2"]
    assert "not used before, in place of others" in text_of(html)


async def test_without_anything_before_it_says_so(reader: Browser, post: Post, project_id: str) -> None:
    await post()

    assert "There is no change of cost to explain" in text_of(await part_of(reader, f"/why?project={project_id}"))
    assert "why-card" not in await html_of(reader, f"/projects/{project_id}")


async def test_the_reader_of_another_project_gets_nothing(
    signed_in: SignIn, post: Post, doubled: str, project_id: str
) -> None:
    await post(to=f"{project_id}-own")
    browser = await signed_in(f"{project_id}-own", Scope.METRICS_READ)

    await html_of(browser, f"/why?project={doubled}", 403)
