"""Whatever is sent in a form, to whichever page, is taken or refused in order, and leaves no page broken."""

import re
from io import BytesIO
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from quart import Quart
from quart.datastructures import FileStorage
from quart.typing import TestClientProtocol as Browser

from runtally.pricing.draft import FIELDS
from tests.factories import make_run
from tests.pages.looking import Outline, text_of
from tests.pages.test_roles import ROUTES, path_to
from tests.serving import INGEST_KEY, settings_for
from webapp.app import create_app
from webapp.form import MAX_FIELDS, MAX_FORM_BYTES

PAGES = Path(__file__).parents[2] / "webapp" / "pages"
NAMES = sorted(
    {name for page in PAGES.rglob("*.py") for name in re.findall(r'\w+\("(\w+)"', page.read_text())} | set(FIELDS)
)
# The first is read in a process of its own, once for each look at it; after the second there is no project.
APART = {"POST /admin/prices/catalogue", "POST /projects/<project_id:project_id>/settings/delete"}
FORMS = [name for name, (method, _) in ROUTES.items() if method == "POST" and name not in APART]
SHOWN = [name for name, (method, _) in ROUTES.items() if method == "GET"]
NUMBERS = (str(2**31), str(2**63), "9" * 400, "9" * 5_000, "-1", "1e999999999")
HOSTILE = ("a\0b", b"\xed\xa0\x80\xff", "0001-01-01", "9999-12-31T23:59:59.999999", *NUMBERS)


async def test_no_form_breaks_a_page(empty_database_url: str) -> None:
    app = create_app(settings_for(empty_database_url, service_dev_mode=True))
    async with app.test_app() as running:
        client = running.test_client()
        run = {"projectId": "p", **make_run()}
        await client.post("/api/ingest", json=run, headers={"Authorization": f"Bearer {INGEST_KEY}"})
        assert len(FORMS) > 30

        for path in ("/sign-in", "/join", *(path_to(app, name, "p") for name in FORMS)):
            for text in HOSTILE:
                body = "&".join(f"{name}={quote_plus(text)}" for name in NAMES)
                form = {"Content-Type": "application/x-www-form-urlencoded"}
                response = await client.post(path, data=body, headers=form)
                assert response.status_code < 500, (path, text)

        for path in ("/", "/runs", "/projects/p", "/projects/p/settings", "/admin/prices", "/admin/prices/repricing"):
            assert (await client.get(path)).status_code == 200, path


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_no_query_breaks_a_page(app: Quart, reader: Browser, text: str | bytes) -> None:
    assert len(SHOWN) > 30
    query = "&".join(f"{name}={quote_plus(text)}" for name in NAMES)

    for name in SHOWN:
        response = await reader.get(f"{path_to(app, name, 'p')}?{query}")
        assert response.status_code < 500, name


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 10**30, "9" * 5_000])
async def test_there_is_nothing_under_a_number_that_no_row_has(app: Quart, reader: Browser, number: int | str) -> None:
    rules = [rule for rule in app.url_map.iter_rules() if "<row:" in rule.rule]
    assert len(rules) > 5

    for rule in rules:
        path = re.sub("<row:[^>]+>", str(number), re.sub(r"<any\((\w+)[^>]*>", r"\1", rule.rule))
        for method in (rule.methods or set()) & {"GET", "POST"}:
            # Something else may be there to read, under any text.
            assert (await reader.open(path, method=method, json=None)).status_code in {404, 405}, path


@pytest.mark.parametrize("number", NUMBERS)
async def test_the_audit_log_before_no_row_is_the_newest(reader: Browser, number: str) -> None:
    assert (await reader.get(f"/admin/audit?before={number}")).status_code == 200


@pytest.mark.parametrize("path", ["/sign-in", "/join", "/theme"])
async def test_no_form_keeps_others_waiting_by_its_size(stranger: Browser, path: str) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    fits = b"&".join(b"a%d=" % number for number in range(MAX_FIELDS))
    too_many, too_long = fits + b"&theme=dark", b"next=" + b"%41" * (MAX_FORM_BYTES // 3)

    taken = await stranger.post(path, data=fits, headers=headers)
    refused = [await stranger.post(path, data=data, headers=headers) for data in (too_many, too_long)]

    assert taken.status_code != 413
    assert [response.status_code for response in refused] == [413, 413]
    assert "send less at once" in await refused[0].get_data(as_text=True)


@pytest.mark.parametrize("path", ["/sign-in", "/join", "/theme"])
async def test_no_form_in_parts_keeps_others_waiting_by_its_size(stranger: Browser, path: str) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    part = b'--x\r\nContent-Disposition: form-data; name="theme"\r\n%b\r\ndark\r\n--x--\r\n'

    taken, refused = [
        await stranger.post(path, data=part % (b"A: b\r\n" * lines), headers=headers) for lines in (1, 6_000)
    ]

    assert taken.status_code != 413
    assert refused.status_code == 413


async def test_a_file_that_is_too_large_is_refused_with_a_way_back_to_its_form(reader: Browser) -> None:
    path = "/admin/prices/file"
    file = FileStorage(BytesIO(b"x" * (5 * 1024 * 1024)), "prices.csv")

    response = await reader.post(path, files={"file": file}, headers={"Referer": f"http://localhost{path}"})
    html = await response.get_data(as_text=True)

    assert response.status_code == 413
    assert "send less at once" in text_of(html)
    assert any(link["href"] == path and link["class"] == "button button-main" for link in Outline(html).all("a"))
