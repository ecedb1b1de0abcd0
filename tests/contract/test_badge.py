"""GET /api/badge/experiment/{id}, sentence by sentence of the contract."""

import itertools
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import quote
from xml.etree import ElementTree as ET

import httpx
import pytest

from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.experiments import edit
from runtally.experiments.rule import Rule, Window
from runtally.experiments.verdict import Thresholds
from tests.assertions import assert_error
from tests.factories import make_run
from tests.serving import Server, client_of

SVG = "image/svg+xml"
# As browsers send it for <img>, and for a page.
IMAGE_ACCEPT = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
PAGE_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


@dataclass(frozen=True)
class Trial:
    """The test's own experiment: who sends its runs, who owns it, and who looks at its badge without any key."""

    sender: httpx.AsyncClient
    database: Database
    project_id: str
    id: str
    reader: httpx.AsyncClient

    async def send(self, *statuses: str, id_: str | None = None, project_id: str | None = None) -> None:
        runs = [make_run(experimentId=id_ or self.id, status=status) for status in statuses]
        response = await self.sender.post(
            "/api/ingest", json={"projectId": project_id or self.project_id, "runs": runs}
        )
        assert response.status_code == 200, response.text

    async def get(self, suffix: str = "", *, accept: str = "*/*", **parameters: str) -> httpx.Response:
        return await self.reader.get(f"{self.id}{suffix}", params=parameters, headers={"Accept": accept})

    async def make_private(self) -> str:
        async with self.database.session() as session:
            return edit.make_private(session, OPERATOR, await edit.found(session, self.project_id, self.id))

    async def set_rule(self, rule: Rule) -> None:
        async with self.database.session() as session:
            edit.set_rule(session, OPERATOR, await edit.found(session, self.project_id, self.id), rule)


@pytest.fixture
async def reader(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    """Whoever looks at a README: no key, and no opinion on the format."""
    async with client_of(f"{server.url}/api/badge/experiment/", {"Accept": "*/*"}) as client:
        yield client


@pytest.fixture
def trial(client: httpx.AsyncClient, database: Database, project_id: str, reader: httpx.AsyncClient) -> Trial:
    return Trial(client, database, project_id, f"experiment-{uuid.uuid4().hex[:12]}", reader)


def title(response: httpx.Response) -> str | None:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == SVG
    root = ET.fromstring(response.content)  # noqa: S314  # Our own output; parsing is the test.
    return root.findtext("{http://www.w3.org/2000/svg}title")


async def test_it_needs_no_authentication_and_shows_the_label_and_the_verdict_alone(trial: Trial) -> None:
    await trial.send("success", "error")

    response = await trial.get()

    root = ET.fromstring(response.content)  # noqa: S314  # Our own output; parsing is the test.
    assert {text.strip() for text in root.itertext()} - {""} == {f"{trial.id}: fail", trial.id, "fail"}
    assert trial.project_id not in response.text
    assert "set-cookie" not in response.headers


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


@pytest.mark.parametrize(("status", "verdict"), [("success", "pass"), ("error", "fail"), ("timeout", "fail")])
async def test_json_is_exactly_the_status(trial: Trial, status: str, verdict: str) -> None:
    await trial.send(status)

    response = await trial.get(".json")

    assert response.json() == {"status": verdict}


async def test_shields_is_the_endpoint_badge_of_shields_io(trial: Trial) -> None:
    unknown = await trial.get(format="shields")
    await trial.send("success")
    passes = await trial.get(format="shields", label="Prompt 2")
    await trial.send("error")
    fails = await trial.get(format="shields")

    badge = {"schemaVersion": 1, "label": trial.id}
    assert unknown.status_code == 200
    assert unknown.json() == badge | {"message": "unknown", "color": "lightgrey"}
    assert passes.json() == badge | {"label": "Prompt 2", "message": "pass", "color": "brightgreen"}
    assert fails.json() == badge | {"message": "fail", "color": "red"}


async def test_an_unknown_experiment_is_a_grey_image_with_200_and_404_as_json(trial: Trial) -> None:
    image = await trial.get()

    assert title(image) == f"{trial.id}: unknown"
    assert "#9f9f9f" in image.text
    assert_error(await trial.get(".json"), 404, "unknown_experiment", never=[trial.id])


async def test_an_experiment_with_too_few_runs_is_like_one_that_is_unknown(trial: Trial) -> None:
    await trial.send("success", "success")
    await trial.set_rule(Rule(thresholds=Thresholds(min_runs=3)))

    assert title(await trial.get()) == f"{trial.id}: unknown"
    assert_error(await trial.get(".json"), 404, "unknown_experiment")

    await trial.send("success")

    assert title(await trial.get()) == f"{trial.id}: pass"


async def test_a_private_experiment_needs_its_token_and_looks_unknown_without(trial: Trial) -> None:
    await trial.send("success")
    token = await trial.make_private()
    nobody = f"{trial.id[:-1]}x"

    wrong: list[dict[str, str]] = [
        {},
        {"token": ""},
        {"token": token[:-1]},
        {"token": "\0"},
        {"project": trial.project_id},
    ]
    for parameters, (suffix, format_) in itertools.product(
        wrong, [(".svg", "svg"), (".json", "json"), ("", "shields")]
    ):
        query = {"label": "x", "format": format_} | parameters
        hidden, absent = [await trial.reader.get(f"{name}{suffix}", params=query) for name in (trial.id, nobody)]

        assert (hidden.status_code, hidden.content) == (absent.status_code, absent.content)
        assert _stable_headers(hidden) == _stable_headers(absent)
    assert title(await trial.get(token=token)) == f"{trial.id}: pass"
    assert (await trial.get(".json", token=token)).json() == {"status": "pass"}


def _stable_headers(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name not in {"x-request-id", "date"}}


async def test_an_id_of_two_projects_is_unknown_until_the_project_is_named(trial: Trial) -> None:
    other = f"{trial.project_id}-other"
    await trial.send("success")
    assert title(await trial.get()) == f"{trial.id}: pass"
    await trial.send("error", project_id=other)

    assert title(await trial.get()) == f"{trial.id}: unknown"
    assert_error(await trial.get(".json"), 404, "unknown_experiment")
    assert title(await trial.get(project=trial.project_id)) == f"{trial.id}: pass"
    assert title(await trial.get(project=other)) == f"{trial.id}: fail"


@pytest.mark.parametrize("shape", ["{}.v1.2", "team/{}/v1", "/{}", "{}//twice", "{}/", "ü {} ?&#%+", "{}.svg.d", ".{}"])
async def test_an_id_may_hold_dots_slashes_and_anything_else(trial: Trial, shape: str) -> None:
    name = shape.format(trial.id)
    await trial.send("success", id_=name)

    for path in (quote(name), quote(name, safe="")):
        assert title(await trial.reader.get(f"{trial.reader.base_url}{path}.svg")) == f"{name}: pass"
        assert (await trial.reader.get(f"{trial.reader.base_url}{path}.json")).json() == {"status": "pass"}


async def test_an_id_that_ends_like_a_suffix_takes_another_one(trial: Trial) -> None:
    await trial.send("success", id_=f"{trial.id}.json")

    assert_error(await trial.get(".json"), 404, "unknown_experiment")
    assert (await trial.get(".json.json")).json() == {"status": "pass"}


@pytest.mark.parametrize("path", ["%00", "%00.svg", "a%00b", "%ff%fe", ".svg", "x" * 2000])
async def test_a_path_that_can_be_no_id_is_unknown(reader: httpx.AsyncClient, path: str) -> None:
    response = await reader.get(f"{reader.base_url}{path}", params={"project": "\0", "label": "\0\x07\ud7ff"})

    assert (title(response) or "").endswith("unknown")


async def test_the_rule_is_the_experiments_own(trial: Trial) -> None:
    await trial.send("error", "success")
    assert (await trial.get(".json")).json() == {"status": "fail"}

    await trial.set_rule(Rule(Window(None, 1), Thresholds(max_p95_latency_ms=800)))
    assert (await trial.get(".json")).json() == {"status": "fail"}

    half = Thresholds(Decimal("0.5"), max_p95_latency_ms=800)
    await trial.set_rule(Rule(Window(None, 1), half))
    assert (await trial.get(".json")).json() == {"status": "pass"}


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


async def test_the_label_is_escaped_and_bounded(reader: httpx.AsyncClient) -> None:
    label = "<script>alert(1)</script>\"'&"

    assert title(await reader.get("a", params={"label": label})) == f"{label}: unknown"
    assert "<script" not in (await reader.get("a", params={"label": label})).text
    assert title(await reader.get("a", params={"label": "x" * 64})) == f"{'x' * 64}: unknown"
    assert title(await reader.get("a", params={"label": "x" * 65})) == f"{'x' * 63}…: unknown"
    assert title(await reader.get("a", params={"label": ""})) == "unknown"


async def test_there_are_three_styles_and_any_other_is_flat(reader: httpx.AsyncClient) -> None:
    texts = {style: (await reader.get("a", params={"style": style})).text for style in ("flat", "flat-square", "other")}
    large = await reader.get("a", params={"style": "for-the-badge"})

    assert "linearGradient" in texts["flat"]
    assert "linearGradient" not in texts["flat-square"]
    assert texts["other"] == texts["flat"]
    assert 'height="28"' in large.text
    assert ">UNKNOWN<" in large.text


async def test_a_wider_label_makes_a_wider_badge(reader: httpx.AsyncClient) -> None:
    def width(response: httpx.Response) -> int:
        return int(ET.fromstring(response.content).attrib["width"])  # noqa: S314  # Our own output.

    narrow, wide = [width(await reader.get("a", params={"label": label})) for label in ("iiii", "WWWW")]
    # A W is 0.99 em wide, an i 0.28.
    assert wide - narrow == 31


@pytest.mark.parametrize("encoding", ["gzip, br", "identity"])
@pytest.mark.parametrize("accept", ["*/*", IMAGE_ACCEPT, "application/json"])
@pytest.mark.parametrize(
    "asked",
    ["", ".svg", ".json", "?format=shields", "?format=x", ".svg?label=" + "W" * 64, "?style=for-the-badge&label="],
)
async def test_the_express_lane_and_the_route_answer_the_same(
    trial: Trial, asked: str, accept: str, encoding: str
) -> None:
    await trial.send("success")
    headers = {"Accept": accept, "Accept-Encoding": encoding}
    # What comes twice goes to the route.
    twice = [*headers.items(), ("X-Twice", "1"), ("X-Twice", "2")]

    for path in (f"{trial.id}{asked}", f"none-such{asked}"):
        direct, through_quart = [await trial.reader.get(path, headers=each) for each in (headers, twice)]
        assert (direct.status_code, direct.content) == (through_quart.status_code, through_quart.content)
        assert _stable_headers(direct) == _stable_headers(through_quart)
        known = {"If-None-Match": direct.headers.get("ETag", "")}
        direct, through_quart = [
            await trial.reader.get(path, headers=[*each, *known.items()]) for each in (headers.items(), twice)
        ]
        assert direct.status_code == through_quart.status_code
        assert _stable_headers(direct) == _stable_headers(through_quart)


async def test_the_path_alone_is_no_experiment(stranger: httpx.AsyncClient) -> None:
    assert_error(await stranger.get("/api/badge/experiment"), 404, "not_found")
    assert_error(await stranger.get("/api/badge/experiment/"), 404, "not_found")


async def test_another_method_is_405(reader: httpx.AsyncClient) -> None:
    assert_error(await reader.post("a"), 405, "method_not_allowed")
