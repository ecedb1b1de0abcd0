"""The guides as pages, and what links to them."""

import re
from collections.abc import Iterator

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.models.user import Role
from tests.pages.conftest import Invite
from tests.pages.looking import Outline, html_of, part_of, text_of
from webapp import guides
from webapp.guides import FOLDER, NAMES
from webapp.rendering import FOLDER as TEMPLATES
from webapp.snippets import ways_to_send

CALL = re.compile(r"""guide\.more\(["']([^"']+)["'](?:, ["']([^"']+)["'])?\)""")


def _anchors(name: str) -> set[str]:
    return set(re.findall(r'\bid="([^"]+)"', guides.read(name).html))


def _linked_by_templates() -> Iterator[tuple[str, str]]:
    for template in sorted(TEMPLATES.rglob("*.html")):
        yield from CALL.findall(template.read_text())


@pytest.mark.parametrize("name", NAMES)
async def test_everybody_can_read_a_guide(stranger: Browser, name: str) -> None:
    html = await html_of(stranger, f"/guides/{name}")

    assert f"<title>{guides.titles()[name]}" in html
    # Our Content-Security-Policy would refuse it.
    assert "style=" not in html


@pytest.mark.parametrize("name", NAMES)
def test_links_of_a_guide_lead_to_a_section_of_a_guide_or_to_another_server(name: str) -> None:
    for link in Outline(guides.read(name).html).all("a"):
        href = link["href"] or ""
        if not href.startswith("https://"):
            path, _, anchor = href.partition("#")
            assert not anchor or anchor in _anchors(path or name), href
            assert (path or name) in NAMES, href


def test_pages_link_to_sections_that_exist() -> None:
    ways = ways_to_send("https://runtally.example", "key", "search", names_project=False)
    linked = {*_linked_by_templates(), *((way.guide, way.section) for way in ways)}

    assert len(linked) > 15
    assert {(name, section) for name, section in linked if section and section not in _anchors(name)} == set()


async def test_the_list_has_every_guide(reader: Browser) -> None:
    links = [link["href"] for link in Outline(await html_of(reader, "/guides")).all("a")]

    assert [f"/guides/{name}" for name in NAMES if f"/guides/{name}" not in links] == []
    # About the project itself.
    assert {path.stem for path in FOLDER.glob("*.md")} - {*NAMES} == {"decisions", "licences", "words"}


async def test_a_guide_that_does_not_exist_is_not_found(reader: Browser) -> None:
    assert (await reader.get("/guides/decisions")).status_code == 404


async def test_a_guide_is_found_by_its_title(reader: Browser) -> None:
    assert "/guides/opentelemetry" in await part_of(reader, "/find?q=opentelem")


async def test_public_pages_keep_the_navigation_of_who_is_signed_in(invite: Invite, stranger: Browser) -> None:
    admin, _ = await invite(Role.ADMIN)

    for path, status in (("/guides", 200), ("/guides/alerts", 200), ("/docs", 200), ("/no-page", 404)):
        signed_in = Outline(await html_of(admin, path, status))
        assert {"go-prices", "go-runs"} <= {link.get("id") for link in signed_in.all("a")}, path
        assert "Sign in" not in text_of(await html_of(admin, path, status)), path
        assert "Sign in" in text_of(await html_of(stranger, path, status)), path
