"""GET /api/badge/experiment/{id}: in which format it answers, and how long an answer may be kept."""

import httpx
import pytest

from tests.assertions import assert_error
from tests.trials import SVG, Trial

# As browsers send it for <img>, and for a page.
IMAGE_ACCEPT = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
PAGE_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


@pytest.mark.parametrize(("suffix", "kind"), [(".svg", SVG), (".json", "application/json")])
async def test_the_suffix_of_the_path_wins(trial: Trial, suffix: str, kind: str) -> None:
    await trial.send("success")

    for format_, accept in (("svg", SVG), ("json", "application/json"), ("shields", "text/html")):
        response = await trial.get(suffix, accept=accept, format=format_)

        assert response.headers["content-type"] == kind
        assert "pass" in response.text


@pytest.mark.parametrize(
    ("format_", "kind"), [("svg", SVG), ("json", "application/json"), ("shields", "application/json")]
)
async def test_the_format_parameter_wins_over_accept(trial: Trial, format_: str, kind: str) -> None:
    await trial.send("success")

    for accept in ("application/json", IMAGE_ACCEPT, "*/*"):
        response = await trial.get(accept=accept, format=format_)

        assert response.headers["content-type"] == kind
        assert "accept" not in [name.strip() for name in response.headers["vary"].lower().split(",")]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
        ("application/json, text/plain, */*", "application/json"),
        ("application/json, image/svg+xml;q=0.9", "application/json"),
        ("application/json, text/html;q=0.9", "application/json"),
        ("application/*", "application/json"),
        ("application/json, image/svg+xml", SVG),
        ("application/json, text/html", SVG),
        ("application/json;q=0.8, image/*;q=0.9", SVG),
        ("application/json;q=0.5, */*;q=0.8", SVG),
        ("application/json;q=0", SVG),
        (IMAGE_ACCEPT, SVG),
        (PAGE_ACCEPT, SVG),
        ("*/*", SVG),
        ("text/plain", SVG),
        ("", SVG),
    ],
)
async def test_accept_asks_for_json_only_if_it_outranks_images_and_html(trial: Trial, accept: str, kind: str) -> None:
    await trial.send("success")

    response = await trial.get(accept=accept)

    assert response.headers["content-type"] == kind
    assert "accept" in [name.strip() for name in response.headers["vary"].lower().split(",")]


@pytest.mark.parametrize("path", ["a", "a.svg", "a.json"])
async def test_another_format_is_400(reader: httpx.AsyncClient, path: str) -> None:
    assert_error(await reader.get(path, params={"format": "png"}), 400, "invalid_format", never=["png"])
    assert_error(await reader.get(path, params={"format": ""}), 400, "invalid_format")


async def test_an_image_may_be_kept_for_a_minute_and_runs_nothing(trial: Trial) -> None:
    await trial.send("success")

    response = await trial.get()

    assert response.headers["cache-control"] == "max-age=60"
    assert response.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "cookie" not in response.headers["vary"].lower()


@pytest.mark.parametrize("path", ["{}.svg", "{}.json", "{}?format=shields"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_client_that_has_the_answer_gets_304_until_the_verdict_changes(
    trial: Trial, path: str, method: str
) -> None:
    url = path.format(trial.id)
    await trial.send("success")
    tag = (await trial.reader.request(method, url)).headers["etag"]

    same = await trial.reader.request(method, url, headers={"If-None-Match": f'"other", {tag}'})
    await trial.send("error")
    changed = await trial.reader.request(method, url, headers={"If-None-Match": tag})

    assert not tag.startswith("W/")
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert same.headers["cache-control"] == "max-age=60"
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


async def test_a_strong_tag_is_of_one_sequence_of_bytes(reader: httpx.AsyncClient) -> None:
    tags: dict[str, bytes] = {}
    for label, encoding in [("x" * 64, "gzip"), ("x" * 64, "identity"), ("x", "gzip"), ("x", "identity"), ("x", "br")]:
        request = reader.build_request("GET", "a.svg", params={"label": label}, headers={"Accept-Encoding": encoding})
        response = await reader.send(request, stream=True)
        body = b"".join([part async for part in response.aiter_raw()])

        assert tags.setdefault(response.headers["etag"], body) == body
        assert "accept-encoding" in response.headers["vary"].lower()


async def test_the_path_alone_is_no_experiment(stranger: httpx.AsyncClient) -> None:
    assert_error(await stranger.get("/api/badge/experiment"), 404, "not_found")
    assert_error(await stranger.get("/api/badge/experiment/"), 404, "not_found")


async def test_another_method_is_405(reader: httpx.AsyncClient) -> None:
    assert_error(await reader.post("a"), 405, "method_not_allowed")
