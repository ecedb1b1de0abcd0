"""Alerts and dashboards of `docs/deploy`: by promtool, against what the service exposes, and on the reporting views."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from runtally.db.database import Connection
from runtally.files import CHECKOUT
from tests.ops.test_deploy import program
from tests.serving import PATIENCE_SECONDS, Server

DEPLOY = CHECKOUT / "docs" / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
# What Prometheus makes of one metric.
SUFFIXES = ("_bucket", "_count", "_sum")


def dashboard(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana" / f"{name}.json").read_text())
    return found


def targets(name: str) -> Iterator[dict[str, Any]]:
    for panel in dashboard(name)["panels"]:
        yield from panel["targets"]


def expressions() -> list[str]:
    rules = [rule["expr"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    return [*rules, *(target["expr"] for target in targets("service"))]


def test_alerts_fire_when_they_should() -> None:
    promtool = program("promtool")

    done = subprocess.run(  # noqa: S603  # Ours.
        [promtool, "test", "rules", str(ALERTS.with_name("alerts.test.yaml"))],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_service_without_a_failure_has_none_rather_than_no_data(tmp_path: Path) -> None:
    promtool = program("promtool")
    [panel] = [one for one in dashboard("service")["panels"] if one["title"] == "Requests that fail"]
    tests = {
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": 'runtally_http_request_seconds_count{job="a", status="200"}', "values": "0+9x10"}
                ],
                "promql_expr_test": [
                    {
                        "expr": panel["targets"][0]["expr"].replace("$job", "a"),
                        "eval_time": "10m",
                        "exp_samples": [{"labels": "{}", "value": 0}],
                    }
                ],
            }
        ]
    }
    (tmp_path / "panel.yaml").write_text(json.dumps(tests))

    done = subprocess.run(  # noqa: S603  # Ours.
        [promtool, "test", "rules", "panel.yaml"], cwd=tmp_path, check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_and_dashboards_ask_for_metrics_that_there_are(dev_server: Server) -> None:
    exposed = httpx.get(f"{dev_server.url}/metrics", timeout=PATIENCE_SECONDS).text
    there = set(re.findall(r"^# TYPE (\w+) ", exposed, re.MULTILINE))
    asked = {name for one in expressions() for name in re.findall(r"\bruntally_\w+", one)}

    assert len(asked) > 9
    assert {name for name in asked if _plain(name) not in there and name not in there} == set()


def _plain(name: str) -> str:
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


@pytest.mark.parametrize("name", ["service", "spend"])
def test_panels_of_a_dashboard_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard(name)["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


async def test_panels_of_spend_ask_what_the_views_answer(own_connection: Connection) -> None:
    queries = [target["rawSql"] for target in targets("spend")]
    queries += [one["query"] for one in dashboard("spend")["templating"]["list"] if one["type"] == "query"]

    assert len(queries) > 10
    for query in queries:
        # What Grafana puts in.
        sql = (
            query.replace("$__timeFrom()", "'2026-11-01T00:00:00Z'")
            .replace("$__timeTo()", "'2026-11-30T00:00:00Z'")
            .replace("$project", "'shop','bot'")
        )
        assert "$" not in sql
        await own_connection.fetch(sql)


async def test_the_recipes_of_the_documentation_run_on_the_views(own_connection: Connection) -> None:
    text = (CHECKOUT / "docs" / "reporting.md").read_text()
    recipes = [
        one
        for block in re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
        for one in block.split(";")
        if "FROM reporting_daily_" in one
    ]

    assert {name for one in recipes for name in re.findall(r"FROM (reporting_daily_\w+)", one)} == {
        f"reporting_daily_{kind}" for kind in ("projects", "providers", "models", "experiments")
    }
    for one in recipes:
        await own_connection.fetch(one)
