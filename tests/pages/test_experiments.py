"""Experiments: the list, one of them with its thresholds and badge, two side by side."""

from html import unescape
from urllib.parse import quote

import pytest
from quart import Quart
from quart.typing import TestClientProtocol as Browser

from runtally.access.scopes import Scope
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn
from tests.pages.experiments import runs_of
from tests.pages.looking import Outline, html_of, part_of, text_of
from webapp.pages.experiments.experiments import key_of

ODD = "a/../b ~1 [x](y)?#%&\"'<i>ü"


@pytest.fixture
def page(project_id: str) -> str:
    return f"/experiments/{project_id}/prompt-v2"


async def save(reader: Browser, page: str, **fields: str) -> tuple[int, str]:
    form = {"windowRuns": "100", "minRuns": "1", "maxErrorRate": "5"} | fields
    response = await reader.post(f"{page}/thresholds", form=form)
    return response.status_code, await response.get_data(as_text=True)


async def test_the_list_has_each_check_against_its_limit(reader: Browser, post: Post, project_id: str) -> None:
    await post(*runs_of("good", 3, latencyMs=700), *runs_of("bad", 1, status="error"), make_run())

    text = text_of(await html_of(reader, f"/experiments?project={project_id}"))

    assert "2 experiments 1 failing" in text
    # What fails is first.
    assert "bad Error rate 100% (over 5%) Fail 1 100% over 5% 800 ms $0.500 $0.500" in text
    assert "good Error rate 0% (limit 5%) Pass 3 0% limit 5% 700 ms $0.500 $1.50" in text


async def test_the_list_of_all_has_those_of_every_project(reader: Browser, post: Post, project_id: str) -> None:
    await post(*runs_of("same"))
    await post(*runs_of("same"), to=f"{project_id}-other")

    links = [link["href"] for link in Outline(await html_of(reader, "/experiments")).all("a")]

    assert {f"/experiments/{project_id}/same", f"/experiments/{project_id}-other/same"} <= set(links)


async def test_without_an_experiment_the_page_tells_how_to_start_one(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post()

    text = text_of(await html_of(reader, f"/experiments?project={project_id}"))

    assert "No experiments yet." in text
    assert f'{{"projectId": "{project_id}", "experimentId": "prompt-v2", …}}' in text


async def test_too_few_runs_are_counted_rather_than_judged(reader: Browser, post: Post, page: str) -> None:
    await post(*runs_of("prompt-v2", 38, status="error"))
    await save(reader, page, minRuns="100")

    html = await html_of(reader, page)

    assert "Not enough runs yet (38 of 100)" in text_of(html)
    assert "check-broken" not in html


@pytest.mark.parametrize("id_", [ODD, "..", ".", "~.", "compare", "x.svg", "a//b"])
async def test_an_experiment_of_any_name_has_a_page_and_its_project_too(
    reader: Browser, post: Post, project_id: str, id_: str
) -> None:
    project = f"{project_id}/{ODD}"
    await post(*runs_of(id_), to=project)
    listed = Outline(await html_of(reader, f"/experiments?project={quote(project)}"))
    [href] = [link["href"] for link in listed.all("a") if (link["href"] or "").startswith(f"/experiments/{project_id}")]

    outline = Outline(await html_of(reader, href or ""))

    assert id_ in "".join(outline.texts)
    assert href not in {None, "", "/experiments"}
    # A browser resolves such segments by itself.
    assert not {".", ".."} & set((href or "").split("/"))


async def test_saved_thresholds_are_said_and_judge_from_now_on(reader: Browser, post: Post, page: str) -> None:
    await post(*runs_of("prompt-v2", 2))

    status, _ = await save(reader, page, maxErrorRate="", maxTotalCostUSD="0.99")

    assert status == 303
    html = await html_of(reader, page)
    assert "Thresholds saved." in html
    assert "Total cost $1.00 over $0.99" in text_of(html)
    fields = {field.get("name"): field.get("value") for field in Outline(html).all("input")}
    assert fields["maxErrorRate"] == ""
    assert fields["maxTotalCostUSD"] == "0.99"
    assert "Thresholds saved." not in await html_of(reader, page)


async def test_wrong_thresholds_come_back_with_the_errors_at_their_fields(
    reader: Browser, post: Post, page: str
) -> None:
    await post(*runs_of("prompt-v2"))

    status, html = await save(reader, page, maxErrorRate="much", minRuns="7777")

    assert status == 422
    outline = Outline(html)
    for name in ("maxErrorRate", "minRuns"):
        field = outline.by_id(name)
        assert field["aria-invalid"] == "true"
        assert f"{name}-error" in (field["aria-describedby"] or "")
    assert outline.by_id("maxErrorRate")["value"] == "much"
    assert "autofocus" in outline.by_id("errors")
    # Nothing was changed.
    assert "limit 5%" in text_of(await html_of(reader, page))


async def test_a_badge_is_copied_in_every_markup(reader: Browser, post: Post, project_id: str) -> None:
    await post(*runs_of("v2 (new)"))
    page = f"/experiments/{project_id}/v2%20(new)"
    url = f"http://localhost/api/badge/experiment/v2%20%28new%29.svg?project={project_id}"
    endpoint = quote(f"http://localhost/api/badge/experiment/v2%20%28new%29?project={project_id}&format=shields", "")

    for name, snippet in {
        "markdown": f"![v2 (new)]({url})",
        "html": f'<img src="{url}" alt="v2 (new)">',
        "rst": f".. image:: {url}\n   :alt: v2 (new)",
        "asciidoc": f'image:{url}["v2 (new)"]',
        "json": url.replace(".svg", ".json"),
        "shields": f"https://img.shields.io/endpoint?url={endpoint}",
    }.items():
        assert snippet in unescape(await html_of(reader, f"{page}?as={name}")), name
    response = await reader.get(url.removeprefix("http://localhost"))
    assert "pass" in await response.get_data(as_text=True)


async def test_options_of_the_badge_are_in_the_address_and_redraw_the_panel_alone(
    reader: Browser, post: Post, page: str, project_id: str
) -> None:
    await post(*runs_of("prompt-v2"))

    response = await reader.get(
        f"{page}/badge?style=for-the-badge&label=Prompt&as=html",
        headers={"HX-Request": "true", "HX-Request-Type": "partial"},
    )

    part = await response.get_data(as_text=True)
    assert Outline(part).roots == [("section", Outline(part).by_id("badge-panel"))]
    assert f"?project={project_id}&style=for-the-badge&label=Prompt" in unescape(unescape(part))
    address = response.headers["HX-Replace-Url"]
    assert address == f"{page}?style=for-the-badge&label=Prompt&as=html#badge-panel"
    assert "".join(part.split("&amp;at=")[0].split()) in "".join(
        (await html_of(reader, address.partition("#")[0])).split()
    )


async def test_a_badge_panel_opened_alone_leads_to_its_page(reader: Browser, post: Post, page: str) -> None:
    await post(*runs_of("prompt-v2"))

    response = await reader.get(f"{page}/badge?style=for-the-badge")

    assert response.status_code == 303
    assert response.headers["Location"] == f"{page}?style=for-the-badge#badge-panel"


async def test_a_badge_is_made_private_gets_another_token_and_is_made_public(
    reader: Browser, post: Post, page: str
) -> None:
    await post(*runs_of("prompt-v2"))
    assert "This badge is public." in await html_of(reader, page)

    async def changed(visibility: str) -> str:
        response = await reader.post(f"{page}/badge", form={"visibility": visibility})
        assert response.status_code == 303
        html = unescape(await html_of(reader, f"{page}?as=json"))
        return html.split('id="badge-snippet"')[1].split("<code>")[1].split("</code>")[0]

    first, second = await changed("private"), await changed("private")
    assert "This badge is private." in await html_of(reader, page)
    for url, status in ((first, 404), (second, 200)):
        assert (await reader.get(url.removeprefix("http://localhost"))).status_code == status, url
    assert "token" not in await changed("public")


async def test_a_page_and_its_part_are_the_same(reader: Browser, post: Post, project_id: str, page: str) -> None:
    await post(*runs_of("prompt-v2"))

    for url in (f"/experiments?project={project_id}", "/experiments/compare"):
        whole, part = await html_of(reader, url), await part_of(reader, url)
        title, _, body = part.partition("\n")
        assert title in whole
        assert "".join(body.split()) in "".join(whole.split())
    outline = Outline(await html_of(reader, page))
    assert len(outline.ids()) == len(set(outline.ids()))
    assert not [name for _, found in outline.elements for name in found if name == "style" or name.startswith("on")]


async def test_a_key_of_a_project_sees_its_experiments_and_changes_nothing(
    signed_in: SignIn, post: Post, project_id: str, page: str
) -> None:
    await post(*runs_of("prompt-v2"))
    await post(*runs_of("theirs"), to=f"{project_id}-other")
    member = await signed_in(project_id)

    listed, shown = await html_of(member, "/experiments"), await html_of(member, page)

    assert "prompt-v2" in listed
    assert "theirs" not in listed
    assert "Only members of this project can change" in shown
    assert "Make private" not in shown
    assert (await save(member, page))[0] == 403
    assert (await member.post(f"{page}/badge", form={"visibility": "private"})).status_code == 403


async def test_nobody_sees_the_experiments_of_others(
    signed_in: SignIn, stranger: Browser, post: Post, project_id: str, page: str
) -> None:
    await post(*runs_of("prompt-v2"))
    await post(*runs_of("mine"), to=f"{project_id}-other")
    other = await signed_in(f"{project_id}-other")
    pair = f"a={key_of(project_id, 'prompt-v2')}&b={key_of(f'{project_id}-other', 'mine')}"

    for url in (f"/experiments?project={project_id}", page, f"{page}/badge"):
        assert (await other.get(url)).status_code == 403, url
        assert (await stranger.get(url)).status_code == 303, url
    # Not even its name is among what can be compared.
    assert "prompt-v2" not in await html_of(other, "/experiments/compare")
    assert "Choose two" in await html_of(other, f"/experiments/compare?{pair}")


async def test_a_key_for_something_else_sees_none(signed_in: SignIn, post: Post, project_id: str, page: str) -> None:
    await post(*runs_of("prompt-v2"))
    reader = await signed_in(project_id, Scope.RUNS_READ)

    for url in ("/experiments", page, "/experiments/compare"):
        assert (await reader.get(url)).status_code == 403


async def test_an_unknown_experiment_is_not_found(reader: Browser, app: Quart, project_id: str) -> None:
    for url in (f"/experiments/{project_id}/none", f"/experiments/{project_id}/none/badge", "/experiments?project=%00"):
        assert (await reader.get(url)).status_code == 404, url
    for path in ("thresholds", "badge"):
        form = {"windowRuns": "1", "minRuns": "1", "maxErrorRate": "1"}
        response = await reader.post(f"/experiments/{project_id}/none/{path}", form=form)
        assert response.status_code == 404, path
