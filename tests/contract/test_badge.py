"""GET /api/badge/experiment/{id}, sentence by sentence of the contract."""

import itertools
from decimal import Decimal
from urllib.parse import quote
from xml.etree import ElementTree as ET

import httpx
import pytest

from runtally.experiments.verdict import Rule, Thresholds, Window
from tests.assertions import assert_error
from tests.trials import Trial, stable_headers, title


async def test_it_needs_no_authentication_and_shows_the_label_and_the_verdict_alone(trial: Trial) -> None:
    await trial.send("success", "error")

    response = await trial.get()

    root = ET.fromstring(response.content)  # noqa: S314  # Our own output; parsing is the test.
    assert {text.strip() for text in root.itertext()} - {""} == {f"{trial.id}: fail", trial.id, "fail"}
    assert trial.project_id not in response.text
    assert "set-cookie" not in response.headers


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
        assert stable_headers(hidden) == stable_headers(absent)
    assert title(await trial.get(token=token)) == f"{trial.id}: pass"
    assert (await trial.get(".json", token=token)).json() == {"status": "pass"}


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
