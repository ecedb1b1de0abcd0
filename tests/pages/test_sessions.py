"""The list of sessions and of traces, a session, and the ways between a run, its trace and its session."""

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.runs import session as sessions
from runtally.runs.session import PAGE_STEPS
from tests.factories import make_run
from tests.pages.conftest import Post, ago
from tests.pages.looking import Outline, html_of, text_of


@pytest.fixture
async def chat(post: Post, project_id: str) -> str:
    """A project with a session of two traces, a session with a run of two days ago, and a run of none."""
    await post(
        make_run(runId="first", sessionId="chat", traceId="t1", userId="ann", timestamp=ago(minutes=30)),
        make_run(
            runId="second",
            sessionId="chat",
            traceId="t1",
            userId="ann",
            model="acme-cached",
            inputTokens=1_000,
            cachedInputTokens=250,
            timestamp=ago(minutes=20),
        ),
        make_run(
            runId="third",
            sessionId="chat",
            traceId="t2",
            status="error",
            errorCode="overloaded",
            timestamp=ago(minutes=10),
        ),
        make_run(runId="other", sessionId="call", userId="bob", inputTokens=200_000, timestamp=ago(days=2)),
        make_run(runId="alone"),
    )
    return f"/projects/{project_id}"


def names(html: str) -> list[str]:
    """The rows of a list, in order."""
    return [text_of(row.split("</span>")[0].split(">", 1)[1]) for row in html.split('<span class="sessions-name"')[1:]]


async def test_the_list_says_who_when_and_what_it_cost(reader: Browser, chat: str) -> None:
    html = await html_of(reader, f"{chat}/sessions")

    text = text_of(html)
    assert "2 sessions" in text
    assert names(html) == ["call", "chat"]
    assert "chat ann · 3 runs · 1 failed · 10 min ago ann acme-cached, acme-large" in text
    assert "20 min 1 s 3 1 $0.031" in text
    outline = Outline(html)
    assert f"{chat}/sessions/chat" in [link["href"] for link in outline.all("a")]


@pytest.mark.parametrize(
    ("sort", "wanted"),
    [
        ("latest", ["chat", "call"]),
        ("-latest", ["call", "chat"]),
        ("runs", ["chat", "call"]),
        ("duration", ["chat", "call"]),
        ("failed", ["chat", "call"]),
        ("nonsense", ["call", "chat"]),
    ],
)
async def test_headings_sort_the_list(reader: Browser, chat: str, sort: str, wanted: list[str]) -> None:
    html = await html_of(reader, f"{chat}/sessions?sort={sort}")

    assert names(html) == wanted
    directions = [one["aria-sort"] for one in Outline(html).all("th") if "aria-sort" in one]
    assert directions == ["ascending" if sort.startswith("-") else "descending"]


async def test_switch_and_range_keep_the_order_and_the_tabs_keep_the_range(reader: Browser, chat: str) -> None:
    outline = Outline(await html_of(reader, f"{chat}/sessions?sort=runs&range=24h"))

    assert outline.by_id("kind-traces")["href"] == f"{chat}/traces?range=24h&sort=runs"
    assert outline.by_id("range-30d")["href"] == f"{chat}/sessions?range=30d&sort=runs"
    links = [link["href"] for link in outline.all("a")]
    assert f"{chat}?range=24h" in links
    # And so does the overview, without what narrows it.
    overview = Outline(await html_of(reader, f"{chat}?range=24h&model=acme-large"))
    assert f"{chat}/sessions?range=24h" in [link["href"] for link in overview.all("a")]


async def test_a_range_leaves_out_what_is_before_it(reader: Browser, chat: str) -> None:
    assert names(await html_of(reader, f"{chat}/sessions?range=24h")) == ["chat"]
    assert names(await html_of(reader, f"{chat}/traces?sort=runs")) == ["t1", "t2"]


async def test_a_project_without_sessions_says_how_to_have_some(reader: Browser, post: Post, project_id: str) -> None:
    await post()

    text = text_of(await html_of(reader, f"/projects/{project_id}/sessions"))

    assert "No sessions in this range. Runs form a session when they are sent with the same sessionId." in text


async def test_pages_of_a_list_hold_fifty(reader: Browser, post: Post, project_id: str) -> None:
    await post(*(make_run(traceId=f"t{number}") for number in range(52)))
    html = await html_of(reader, f"/projects/{project_id}/traces")

    last = await html_of(reader, str(Outline(html).by_id("sessions-next")["href"]))

    assert (len(names(html)), len(names(last))) == (50, 2)
    assert Outline(last).by_id("sessions-previous")["href"] == f"/projects/{project_id}/traces"
    # Pages that nobody has are the last one.
    assert names(await html_of(reader, f"/projects/{project_id}/traces?page=99999999999999999999")) == names(html)


async def test_a_session_shows_its_runs_in_time_and_how_cost_adds_up(reader: Browser, chat: str) -> None:
    html = await html_of(reader, f"{chat}/sessions/chat")

    text = text_of(html)
    assert "Cost $0.0308 Runs 3 2 traces Duration 20 min 1 s Failed 1" in text
    assert "8% of input cached User ann" in text
    assert "Cost so far, run by run" in text
    assert "Trace t1" in text
    assert "Trace t2" in text
    steps = [text_of(row) for row in html.split("<tbody>")[-2:]]
    assert "1 acme-large" in steps[0]
    assert "800 ms 1,000 25% 500 $0.0098 $0.0203" in steps[0]
    assert "error: overloaded" in steps[1]
    assert "$0.0105 $0.0308" in steps[1]


async def test_one_comes_from_a_run_to_its_session_and_trace_and_back(reader: Browser, chat: str) -> None:
    def links(html: str) -> list[str | None]:
        return [link["href"] for link in Outline(html).all("a")]

    assert {f"{chat}/sessions/chat", f"{chat}/traces/t1"} <= set(links(await html_of(reader, f"{chat}/runs/first")))
    assert f"{chat}/sessions/chat" in links(await html_of(reader, f"{chat}/traces/t1"))
    assert {f"{chat}/runs/first", f"{chat}/traces/t1"} <= set(links(await html_of(reader, f"{chat}/sessions/chat")))
    assert f"{chat}/sessions/chat" not in links(await html_of(reader, f"{chat}/runs/alone"))


async def test_a_long_session_has_pages_and_a_very_long_one_is_not_added_up(
    reader: Browser, post: Post, project_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = PAGE_STEPS + 3
    await post(*(make_run(sessionId="long", timestamp=ago(minutes=100 - number)) for number in range(runs)))
    url = f"/projects/{project_id}/sessions/long"
    html = await html_of(reader, url)
    assert f"1 to {PAGE_STEPS} of {runs}" in text_of(html)

    last = await html_of(reader, str(Outline(html).by_id("session-next")["href"]))

    assert f"{PAGE_STEPS + 1} to {runs} of {runs}" in text_of(last)
    assert Outline(last).by_id("session-previous")["href"] == f"{url}?page=1"
    monkeypatch.setattr("webapp.pages.sessions.session.MAX_STEPS", 10)
    monkeypatch.setattr(sessions, "MAX_STEPS", 10)
    assert "This session has more than 10 runs." in text_of(await html_of(reader, url))
    response = await reader.get(f"/charts/session.json?project={project_id}&session=long")
    assert response.status_code == 404


async def test_the_chart_of_a_session_comes_as_data_too(reader: Browser, chat: str, project_id: str) -> None:
    assert chat
    response = await reader.get(f"/charts/session.json?project={project_id}&session=chat")

    data = await response.get_json()
    assert [tip["title"] for tip in data["tips"]] == ["Run 1", "Run 2", "Run 3"]
    assert [tip["values"][1] for tip in data["tips"]] == ["$0.0105", "$0.0203", "$0.0308"]


async def test_what_is_no_session_is_not_found(reader: Browser, chat: str) -> None:
    assert "no run of that session" in text_of(await html_of(reader, f"{chat}/sessions/none", 404))
