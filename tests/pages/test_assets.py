"""Static files: kept for good under their own hash, sent compressed."""

import gzip
import re
from pathlib import Path

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally import PYTHON_CLIENT, TYPESCRIPT_CLIENT
from tests.pages.looking import html_of
from webapp import assets
from webapp.assets import STATIC
from webapp.snippets import ways_to_send

HTMX = "/static/vendor/htmx.org@4.0.1/htmx-and-preload.min.js"
FOREVER = "public, max-age=31536000, immutable"


async def test_every_file_that_a_page_names_is_there_and_kept_for_good(reader: Browser) -> None:
    html = await html_of(reader, "/sign-in")
    urls = re.findall(
        r'(?:src|href|data-charts-bundle|data-charts-shared|data-charts-compiler)="(/static/[^"]+)"', html
    )
    assert len(urls) > 10

    for url in urls:
        response = await reader.get(url)
        assert response.status_code == 200, url
        assert response.headers["Cache-Control"] == FOREVER, url


async def test_a_page_has_one_style_sheet_of_all_files(reader: Browser) -> None:
    [url] = re.findall(r'<link rel="stylesheet" href="([^"]+)"', await html_of(reader, "/"))
    css = await (await reader.get(url)).get_data(as_text=True)

    for path in (STATIC / "css").glob("*.css"):
        rules = re.sub(r"/\*.*?\*/\s*", "", path.read_text(), flags=re.DOTALL)
        assert rules in css, path.name


async def test_the_rules_for_paper_come_last(reader: Browser) -> None:
    css = await (await reader.get("/static/css/all.css")).get_data(as_text=True)

    assert css.rindex("@media print") > max(css.index(name) for name in (".shell {", ".prices {", ".figure-row {"))


async def test_all_that_is_not_needed_to_see_a_page_waits_until_it_is_seen(reader: Browser) -> None:
    head = (await html_of(reader, "/")).partition("</head>")[0]
    at_once, _, later = head.partition('<template id="scripts">')

    assert re.findall(r'(?:src|href)="/static/([^"?]+)', at_once) == ["icon.svg", "css/all.css", "js/start.js"]
    assert len(re.findall(r'src="/static/([^"?]+)', later)) > 10


async def test_files_that_css_names_are_there(reader: Browser) -> None:
    css = "".join(path.read_text() for path in (STATIC / "css").glob("*.css"))
    urls = re.findall(r'url\("\.\./([^"]+)"\)', css)
    assert urls

    for url in urls:
        response = await reader.get(f"/static/{url}")
        assert response.status_code == 200, url
        assert response.headers["Content-Type"] == "font/woff2"


async def test_another_hash_is_not_kept_for_good(reader: Browser) -> None:
    for url in ("/static/css/base.css", "/static/css/base.css?v=0123456789ab", "/static/css/all.css?v=0123456789ab"):
        assert (await reader.get(url)).headers["Cache-Control"] == "public, max-age=300"


async def test_a_compressed_file_is_sent_to_browsers_that_accept_it(reader: Browser) -> None:
    packed = await reader.get(HTMX, headers={"Accept-Encoding": "gzip, br"})
    plain = await reader.get(HTMX)

    assert packed.headers["Content-Encoding"] == "br"
    assert packed.headers["Content-Type"].startswith("text/javascript")
    assert await packed.get_data() == (STATIC / HTMX.removeprefix("/static/")).with_suffix(".js.br").read_bytes()
    assert "Content-Encoding" not in plain.headers
    assert {"Accept-Encoding"} <= set(packed.vary)
    assert {"Accept-Encoding"} <= set(plain.vary)


async def test_text_is_sent_compressed(reader: Browser) -> None:
    for url in ("/static/css/base.css", "/sign-in", "/static/js/chart.js"):
        packed = await reader.get(url, headers={"Accept-Encoding": "gzip"})
        plain = await reader.get(url)
        assert packed.headers["Content-Encoding"] == "gzip", url
        assert len(await packed.get_data()) == int(packed.headers["Content-Length"])
        assert gzip.decompress(await packed.get_data(as_text=False)) == await plain.get_data(as_text=False)


async def test_nothing_outside_the_folder_is_served(reader: Browser) -> None:
    for path in ("../pyproject.toml", "..%2fpyproject.toml", "css/../../pyproject.toml", "css", "css/missing.css"):
        assert (await reader.get(f"/static/{path}")).status_code == 404, path


@pytest.mark.parametrize("path", ["a" * 256, "é" * 128, "a/" * 3_000, "a%00b"])
async def test_a_path_that_no_file_can_have_is_404(reader: Browser, path: str) -> None:
    assert (await reader.get(f"/static/{path}")).status_code == 404


async def test_the_server_serves_the_clients_that_it_has_to_who_is_not_signed_in(
    stranger: Browser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / PYTHON_CLIENT).write_bytes(b"a wheel")
    (tmp_path / "secret").write_text("of another")
    monkeypatch.setattr(assets, "CLIENTS", tmp_path)

    found = await stranger.get(f"/clients/{PYTHON_CLIENT}")
    again = await stranger.get(f"/clients/{PYTHON_CLIENT}", headers={"If-None-Match": found.headers["ETag"]})
    missing = [await stranger.get(f"/clients/{name}") for name in (TYPESCRIPT_CLIENT, "secret", "..%2Fsecret")]

    assert (await found.get_data(as_text=False), found.content_type) == (b"a wheel", "application/zip")
    assert found.headers["Cache-Control"] == "public, max-age=300"
    assert again.status_code == 304
    assert [one.status_code for one in missing] == [404, 404, 404]
    installs = {
        way.id: (way.snippets[0].text, "make clients" in way.note)
        for way in ways_to_send("https://r.example", "k", "p", names_project=False, clients=assets.served_clients())
        if way.id in {"python", "typescript"}
    }
    assert installs == {
        "python": (f"pip install https://r.example/clients/{PYTHON_CLIENT}", False),
        "typescript": (f"npm install dist/{TYPESCRIPT_CLIENT}", True),
    }
