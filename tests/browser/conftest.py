"""What there is to see in the browser."""

from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Page, expect

from runtally.clock import system_clock
from tests.factories import make_run
from tests.serving import PATIENCE_SECONDS, Postgres, Server, running_server

PROJECT = "in-the-browser"
EXPERIMENT, BASELINE = "prompt-v2", "prompt-v1"
SESSION = "session-named-after-a-user-" + "with-a-long-name-" * 4
LONG = "a/project named after a branch-" + "with-a-very-long-name-" * 4
MODELS = [
    ("anthropic", "claude-sonnet"),
    ("openai", "gpt-large"),
    ("google", "gemini-flash"),
    ("acme", "acme-" + "x" * 60),
]

# The observer of the test hears of a chart with that of the page. It never hears of one that was replaced, and nothing else ends
# an evaluation that waits.
GO_TO_EACH_CHART = """async () => {
  let timer;
  const never = new Promise((_, fail) => { timer = setTimeout(fail, 60_000, new Error("A chart was never seen.")); });
  for (const box of document.querySelectorAll(".chart-plot")) {
    if (!box.isConnected) continue;
    box.scrollIntoView();
    const seen = new Promise((resolve) =>
      new IntersectionObserver((_, observer) => { observer.disconnect(); resolve(); }).observe(box));
    await Promise.race([seen, never]);
  }
  clearTimeout(timer);
  scrollTo(0, 0);
}"""


@pytest.fixture(scope="session")
def story(dev_server: Server) -> Server:
    """A server with 40 days of runs in a project, and one with a name that is hard to fit."""
    now = system_clock()
    runs = [
        make_run(
            runId=f"run-{number}-{place}",
            traceId=f"trace-{number}",
            sessionId=f"{SESSION}{number // 10 or ''}",
            userId=f"somebody-with-a-long-name-{number % 7}",
            metadata={"feature": "answer" if place else "triage"},
            provider=provider,
            model=model,
            costUSD=0.01 * (number % 5 + 1) * (place + 1),
            latencyMs=300 + 37 * (number % 50),
            status="error" if number % 17 == 0 else "success",
            experimentId=(EXPERIMENT, BASELINE, None, None)[place],
            timestamp=(now - timedelta(hours=5 * number + place)).isoformat(),
        )
        for number in range(190)
        for place, (provider, model) in enumerate(MODELS)
    ]
    post(dev_server, PROJECT, *runs)
    post(dev_server, LONG, *runs[:40])
    for project, amount in ((PROJECT, "2"), (LONG, "0.05")):
        url = f"{dev_server.url}{path_of(project)}/settings/budgets"
        assert httpx.post(url, data={"amount": amount, "alerts": "50, 80"}, timeout=PATIENCE_SECONDS).is_redirect
    url = f"{dev_server.url}{path_of(LONG)}/settings/alerts/new"
    data = {"address": f"https://nowhere.{'long-' * 10}invalid/", "untested": "1"}
    assert httpx.post(url, data=data, timeout=PATIENCE_SECONDS).is_success
    data = {"name": "Always there", "here": f"/projects/{PROJECT}?range=24h"}
    assert httpx.post(f"{dev_server.url}/projects/{PROJECT}/views", data=data, timeout=PATIENCE_SECONDS).is_redirect
    return dev_server


@pytest.fixture
def empty_server(postgres: Postgres) -> Iterator[Server]:
    """A server that never got a run; the test may send the first, so each test has one of its own."""
    with running_server(postgres.create_seeded(f"empty_{uuid4().hex}"), SERVICE_DEV_MODE="1") as server:
        yield server


@pytest.fixture(scope="session")
def never_used_server(postgres: Postgres) -> Iterator[Server]:
    """A server that never gets a run."""
    with running_server(postgres.create_seeded("never_used"), SERVICE_DEV_MODE="1") as server:
        yield server


@pytest.fixture
def project_page(page: Page, story: Server) -> Page:
    """The project's page, drawn."""
    page.goto(f"{story.url}/projects/{PROJECT}")
    drawn(page)
    return page


def post(server: Server, project_id: str, *runs: dict[str, object]) -> None:
    headers = {"Authorization": f"Bearer {server.ingest_key}"}
    body = {"projectId": project_id, "runs": list(runs)}
    httpx.post(f"{server.url}/api/ingest", json=body, headers=headers, timeout=PATIENCE_SECONDS).raise_for_status()


def path_of(project_id: str) -> str:
    return f"/projects/{quote(project_id)}"


def drawn(page: Page) -> None:
    """Waits until the script has drawn every chart, going to each: it draws for somebody, and only what is near."""
    expect(page.locator(".chart-plot").first).to_be_attached()
    page.keyboard.press("Shift")
    page.evaluate(GO_TO_EACH_CHART)
    # One in a part of the page that is closed is drawn when that is opened.
    expect(page.locator(".chart-plot:not([data-ready]):visible")).to_have_count(0)
    expect(page.locator(".chart-plot svg").first).to_be_attached()
