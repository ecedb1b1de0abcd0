"""The dashboard of coding agents: who, where, with what, and what it went into."""

import re

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.db.database import Database
from runtally.usage.groups import rows as group_rows
from tests.factories import make_run
from tests.pages.conftest import Post, ago
from tests.pages.looking import Outline, html_of, text_of
from tests.stored import until_merged

CLAUDE, CODEX = {"agent": "claude-code", "repo": "acme/search"}, {"agent": "codex", "costBasis": "API list price"}


@pytest.fixture
async def team(post: Post, project_id: str) -> str:
    """A project of two developers: a session of Claude Code with a subagent, and one of Codex on a plan that tried again."""
    await post(
        make_run(sessionId="s1", userId="ada", metadata=CLAUDE, timestamp=ago(minutes=9)),
        make_run(sessionId="s1", userId="ada", metadata=CLAUDE | {"agentName": "explorer"}, timestamp=ago(minutes=8)),
        make_run(
            sessionId="s2", userId="bob", metadata=CODEX, status="error", errorCode="429", timestamp=ago(minutes=7)
        ),
        make_run(sessionId="s2", userId="bob", metadata=CODEX | {"attempt": 2}, timestamp=ago(minutes=6)),
    )
    return f"/projects/{project_id}"


async def test_it_says_what_each_developer_repository_agent_and_model_came_to(reader: Browser, team: str) -> None:
    text = text_of(await html_of(reader, f"{team}/agents"))

    assert "Cost $0.0420 $0.0210 at API list price" in text
    assert "Runs 4 Sessions 2 Developers 2" in text
    assert "ada 2 runs" in text
    assert "No repository API list price" in text
    assert "claude-code 2 runs" in text
    assert "acme-large" in text


async def test_subagents_and_retries_are_apart_and_sessions_are_a_click_away(reader: Browser, team: str) -> None:
    html = await html_of(reader, f"{team}/agents")

    text = text_of(html)
    assert "Main work 2 runs · 50% $0.0210 50% 2 50.00%" in text
    assert "Subagents 1 run · 25% $0.0105 25% 1 0%" in text
    assert "Retries 1 run · 25% $0.0105 25% 1 0%" in text
    assert "explorer $0.0105" in text
    assert {f"{team}/sessions/s1", f"{team}/sessions/s2", f"{team}/sessions"} <= links_of(html)


async def test_a_session_says_when_it_began_and_ended(reader: Browser, team: str) -> None:
    text = text_of(await html_of(reader, f"{team}/agents"))

    assert "First run Last run Duration" in text
    moments = r"\d+ \w{3}, \d\d:\d\d \d+ \w{3}, \d\d:\d\d"
    # Each has two runs, a minute apart.
    assert len(re.findall(rf"{moments} 1 min 1 s 2 \$", text)) == 2


async def test_a_reported_cost_stands_beside_the_one_that_is_computed_for_the_same_runs(
    reader: Browser, team: str, post: Post
) -> None:
    assert "Reported cost $" not in text_of(await html_of(reader, f"{team}/agents"))

    await post(
        make_run(metadata=CLAUDE | {"reportedCostUSD": 0.02}), make_run(metadata=CODEX | {"reportedCostUSD": "x"})
    )

    text = text_of(await html_of(reader, f"{team}/agents"))
    assert "Reported cost $0.0200 $0.0105 computed for 1 run" in text
    assert re.search(r"claude-code 3 runs .*? 0% \$0\.0200 codex", text)


async def test_refused_requests_are_counted_by_model(reader: Browser, team: str, post: Post) -> None:
    codes = ("529", "InternalServerError", "RateLimitError", "400")
    await post(*(make_run(model="acme-small", status="error", errorCode=code) for code in codes))

    text = text_of(await html_of(reader, f"{team}/agents"))
    assert "Failed 429 5xx" in text
    assert re.search(r"acme-large .*? 25\.00% 1 0 ", text)
    assert re.search(r"acme-small .*? 100% 1 2 ", text)


async def test_each_table_leads_to_the_page_with_the_next_answer(reader: Browser, team: str) -> None:
    links = links_of(await html_of(reader, f"{team}/agents?range=30d"))

    assert {f"{team}/budgets", f"{team}/cache?range=30d&by=agent", f"{team}/errors?range=30d"} <= links


async def test_teams_are_told_apart_where_they_are_named(reader: Browser, team: str, post: Post) -> None:
    assert "Compare teams" not in text_of(await html_of(reader, f"{team}/agents"))

    await post(make_run(metadata=CLAUDE | {"team": "search"}))

    text = text_of(await html_of(reader, f"{team}/agents"))
    assert "Compare teams" in text
    assert "search 1 run" in text


async def test_a_row_leads_to_its_runs_alone_and_back(reader: Browser, team: str) -> None:
    links = links_of(await html_of(reader, f"{team}/agents"))
    [url] = {link for link in links if "/agents?" in link and "user=ada" in link}

    html = await html_of(reader, url)
    assert "Runs 2 Sessions 1 Developers 1" in text_of(html)
    assert "codex" not in text_of(html)
    assert f"{team}/agents" in links_of(html)


async def test_too_many_runs_to_be_read_are_told_by_sums_alone(
    reader: Browser, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_rows, "MAX_RUNS_READ", 1)

    text = text_of(await html_of(reader, f"{team}/agents"))
    assert "This range has too many runs" in text
    assert "Most expensive sessions" not in text


async def test_only_a_project_with_agents_links_to_it(
    reader: Browser, team: str, post: Post, database: Database
) -> None:
    await post(make_run(), to="no-agents")
    await until_merged(database)

    assert f"{team}/agents" in links_of(await html_of(reader, team))
    assert "/projects/no-agents/agents" not in links_of(await html_of(reader, "/projects/no-agents"))


async def test_without_runs_it_says_so(reader: Browser, team: str) -> None:
    assert "No matching runs." in text_of(await html_of(reader, f"{team}/agents?user=nobody"))


def links_of(html: str) -> set[str]:
    return {link["href"] or "" for link in Outline(html).all("a")}
