"""Light, dark, or as the device has it."""

import pytest
from quart.typing import TestClientProtocol as Browser

from tests.pages.looking import PARTIAL, Outline, html_of


async def test_without_a_choice_the_device_decides(reader: Browser) -> None:
    outline = Outline((await html_of(reader, "/sign-in")).removeprefix("<!DOCTYPE html>"))

    assert outline.all("html") == [{"lang": "en", "data-theme": "auto", "data-zone": "UTC"}]


async def test_the_choice_is_there_from_the_first_byte_on(reader: Browser) -> None:
    response = await reader.post("/theme", form={"theme": "dark", "here": "/sign-in?next=/"})

    assert response.status_code == 303
    assert response.headers["Location"] == "/sign-in?next=/"
    assert 'data-theme="dark"' in await html_of(reader, "/sign-in")


async def test_the_button_goes_through_all_themes(reader: Browser) -> None:
    seen = []
    for _ in range(3):
        button = Outline(await html_of(reader, "/sign-in")).by_id("theme-button")
        seen.append(button["value"])
        await reader.post("/theme", form={"theme": button["value"] or ""})

    assert seen == ["light", "dark", "auto"]


async def test_htmx_gets_the_button_alone(reader: Browser) -> None:
    response = await reader.post("/theme", form={"theme": "light", "here": "/"}, headers=PARTIAL)

    html = await response.get_data(as_text=True)
    assert [attributes["data-theme-now"] for _, attributes in Outline(html).roots] == ["light"]
    assert "theme=light" in response.headers["Set-Cookie"]


@pytest.mark.parametrize("theme", ["", "pink", '"><script>'])
async def test_a_theme_that_is_none_is_the_device_s(reader: Browser, theme: str) -> None:
    await reader.post("/theme", form={"theme": theme})

    assert 'data-theme="auto"' in await html_of(reader, "/sign-in")


async def test_the_button_leads_to_no_other_site(reader: Browser) -> None:
    response = await reader.post("/theme", form={"theme": "dark", "here": "//evil.example"})

    assert response.headers["Location"] == "/"
