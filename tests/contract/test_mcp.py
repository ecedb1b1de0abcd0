"""`runtally mcp`, asked by the client of the protocol's own package over pipes and over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.errors import Forbidden
from runtally.ingest.queries import insert_runs
from runtally.models.budget import Budget
from runtally.models.run import Status
from runtally.names import LiveNames
from runtally.pricing.book import LivePrices
from runtally.pricing.catalogue import sync
from tests import commands
from tests.documents import make_stored_run
from tests.ops.processes import RUNTALLY
from tests.serving import PATIENCE_SECONDS, free_port, settings_for
from webapp.mcp.answers import Answers
from webapp.mcp.server import asking, create_server

TOOLS = {"list_projects", "usage", "dearest_sessions", "errors", "price", "budget"}
HTTP_SECONDS = 60


@pytest.fixture
async def key(own: Database) -> str:
    """A key of the project shop; another project, bot, has runs of today too."""
    now = system_clock()
    async with own.connection() as connection:
        await sync(connection, now)
        await insert_runs(
            connection,
            [
                make_stored_run("shop", "a", occurred_at=now, session_id="s1", cost_usd=Decimal("0.1")),
                make_stored_run("shop", "b", occurred_at=now, session_id="s1", cost_usd=Decimal("0.000000000002")),
                make_stored_run("shop", "c", occurred_at=now, session_id="s2", cost_usd=Decimal(3), model="acme-small"),
                make_stored_run("shop", "d", occurred_at=now, status=Status.ERROR, error_code="rate_limited"),
                make_stored_run("shop", "e", occurred_at=now - timedelta(days=20), cost_usd=Decimal(50)),
                make_stored_run("bot", "f", occurred_at=now, cost_usd=Decimal(7)),
            ],
        )
    async with own.session() as session:
        session.add(
            Budget(project_id="shop", amount_usd=Decimal(100), alert_percents=[80], created_at=now, updated_at=now)
        )
        session.add(
            Budget(
                project_id="shop",
                dimension="session",
                period="day",
                amount_usd=Decimal(2),
                alert_percents=[],
                created_at=now,
                updated_at=now,
            )
        )
        return issue(session, now, OPERATOR, project_id="shop", scopes=(Scope.METRICS_READ, Scope.RUNS_READ)).secret


@asynccontextmanager
async def over_pipes(database_url: str, **environment: str) -> AsyncIterator[Client]:
    settings = {"DATABASE_URL": database_url, "PATH": "/usr/bin:/bin", **environment}
    async with Client(StdioServerParameters(command=RUNTALLY, args=["mcp"], env=settings)) as client:
        yield client


@asynccontextmanager
async def in_this_process(database: Database) -> AsyncIterator[Client]:
    """The same, without a start: what an operator is answered."""
    asking.set(OPERATOR)
    settings = settings_for("postgresql://nowhere")
    answers = Answers(database, LivePrices(database), system_clock, LiveNames.of(settings, database))
    async with Client(create_server(answers)) as client:
        yield client


async def ask(client: Client, tool: str, **arguments: object) -> Any:  # noqa: ANN401  # What JSON has.
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return str(result.content[0].text)  # type: ignore[union-attr]  # An error is text.


async def test_every_tool_only_reads_and_says_what_it_returns(own: Database) -> None:
    async with in_this_process(own) as client:
        tools = (await client.list_tools()).tools

    assert {tool.name for tool in tools} == TOOLS
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
    assert all(tool.description for tool in tools)
    assert all(tool.input_schema["additionalProperties"] is False for tool in tools)


async def test_an_operator_reads_every_project_exactly(empty_database_url: str, key: str) -> None:
    assert key
    async with over_pipes(empty_database_url) as client:
        projects = await ask(client, "list_projects")
        everything = await ask(client, "usage", by=[])
        by_model = await ask(client, "usage", project="shop", by=["model"], limit=1)
        month = await ask(client, "usage", project="shop", range="30d")
        by_line = await ask(client, "usage", project="shop", by=["line", "model"])
        without_budget = await ask(client, "budget", project="bot")

    assert [one["id"] for one in projects["projects"]] == ["bot", "shop"]
    assert without_budget == {"projectId": "bot", "budgets": []}
    assert everything["total"]["costUSD"] == "10.100000000002"
    assert by_model["rows"] == [
        {
            "model": "acme-small",
            "costUSD": "3",
            "runs": 1,
            "errors": 0,
            "timeouts": 0,
            "runsWithoutCost": 0,
            "runsWithoutUsage": 0,
        }
        | {"inputTokens": 1000, "outputTokens": 100, "cachedInputTokens": 0}
    ]
    assert by_model["allOtherRows"]["runs"] == 3
    assert month["total"]["costUSD"] == "53.100000000002"
    assert by_line["total"] == {"costUSD": "3.100000000002", "runs": 4, "runsWithoutCost": 1}
    assert by_line["rows"][0] == {
        "model": "acme-small",
        "line": "reported",
        "name": "Reported cost",
        "costUSD": "3",
        "quantity": None,
    }
    assert sum(Decimal(row["costUSD"]) for row in by_line["rows"]) == Decimal("3.100000000002")


async def test_sessions_errors_price_and_budget_are_answered(empty_database_url: str, key: str) -> None:
    async with over_pipes(empty_database_url, RUNTALLY_KEY=key) as client:
        sessions = await ask(client, "dearest_sessions")
        errors = await ask(client, "errors")
        price = await ask(client, "price", provider="openai", model="gpt-4o-mini")
        varied = await ask(client, "price", provider="anthropic", model="claude-opus-4-6")
        budget = await ask(client, "budget")

    assert [(row["session"], row["costUSD"]) for row in sessions["rows"]] == [("s2", "3"), ("s1", "0.100000000002")]
    assert [(row["errorCode"], row["model"], row["runs"]) for row in errors["rows"]] == [
        ("rate_limited", "acme-large", 1)
    ]
    assert price["usdPerMillionTokens"]["input"] == "0.15"
    assert varied["usdPerUnit"]["cacheWrite1h"] == {"usd": "10", "per": "per 1,000,000 tokens"}
    assert varied["usdPerUnit"]["webSearch"] == {"usd": "10", "per": "per 1,000 requests"}
    assert [one for one in varied["variants"] if one.startswith("tier batch: ")]
    assert (budget["amountUSD"], budget["runsWithoutCost"]) == ("100", 1)
    assert Decimal(budget["spentUSD"]) + Decimal(budget["leftUSD"]) == 100
    [each] = budget["budgets"]
    assert (each["dimension"], each["value"], each["amountUSD"], each["valuesOver"]) == ("session", None, "2", 1)
    assert [(one["value"], one["spentUSD"]) for one in each["values"]] == [("s2", "3"), ("s1", "0.100000000002")]


async def test_a_key_keeps_to_its_project(empty_database_url: str, key: str) -> None:
    async with over_pipes(empty_database_url, RUNTALLY_KEY=key) as client:
        projects = await ask(client, "list_projects")
        own = await ask(client, "usage")
        foreign = [await refusal(client, tool, project="bot") for tool in ("usage", "errors", "budget")]
        hidden = await refusal(client, "dearest_sessions", project="nowhere")

    assert [one["id"] for one in projects["projects"]] == ["shop"]
    assert own["total"]["costUSD"] == "3.100000000002"
    assert {said.partition(": ")[2] for said in (*foreign, hidden)} == {Forbidden.message}


async def test_what_cannot_be_answered_says_how_to_ask(own: Database, key: str) -> None:
    assert key
    async with in_this_process(own) as client:
        unknown = await refusal(client, "usage", by=["colour"])
        unnamed = await refusal(client, "errors")
        none = await refusal(client, "price", provider="acme", model="unheard-of")
        too_many = await refusal(client, "usage", limit=1_000_000)
        unheard_of = await refusal(client, "usage", model="acme-small")
        incomplete = await refusal(client, "price", model="acme-small")

    assert "metadata.<key>" in unknown
    assert "list_projects" in unnamed
    assert "No price in force" in none
    assert "100" in too_many
    # Left out of the question, the answer would be about all models.
    assert "no argument `model`; it has: by, filters, limit, project, range" in unheard_of
    assert incomplete.endswith("provider: Field required")


async def test_tools_take_the_filters_of_the_api(own: Database, key: str) -> None:
    assert key
    async with in_this_process(own) as client:
        of_model = await ask(client, "usage", project="shop", filters={"model": "acme-small"})
        of_lines = await ask(client, "usage", project="shop", by=["line"], filters={"session": "s1"})
        of_session = await ask(client, "dearest_sessions", project="shop", filters={"model": "acme-small"})
        of_code = await ask(client, "errors", project="shop", filters={"errorCode": "none_such"})
        unknown = await refusal(client, "usage", filters={"colour": "red"})
        unreadable = await refusal(client, "errors", project="shop", filters={"status": "bad"})

    assert of_model["total"]["costUSD"] == "3"
    assert of_lines["total"]["costUSD"] == "0.100000000002"
    assert [row["session"] for row in of_session["rows"]] == ["s2"]
    assert of_code["rows"] == []
    assert "filtered by 'colour'; use provider, model, " in unknown
    assert "status " in unreadable


async def test_over_http_each_request_has_a_key(empty_database_url: str, key: str) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    settings = {"DATABASE_URL": empty_database_url, "PATH": "/usr/bin:/bin"}
    with commands.started("mcp", "--http", "--port", str(port), environment=settings):
        async with httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(retries=HTTP_SECONDS), timeout=PATIENCE_SECONDS
        ) as asking:
            nobody = await asking.post(url, json={})
            wrong = await asking.post(url, json={}, headers={"Authorization": "Bearer rt_wrong"})
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS) as keyed,
            Client(streamable_http_client(url, http_client=keyed)) as client,
        ):
            own = await ask(client, "usage")
            foreign = await refusal(client, "usage", project="bot")

    assert (nobody.status_code, nobody.json()["error"]["code"]) == (401, "missing_key")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "invalid_key")
    assert wrong.headers["WWW-Authenticate"].startswith("Bearer")
    assert own["total"]["costUSD"] == "3.100000000002"
    assert foreign


async def test_over_http_an_address_with_too_many_wrong_keys_has_to_wait(empty_database_url: str, key: str) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    settings = {"DATABASE_URL": empty_database_url, "PATH": "/usr/bin:/bin", "WRONG_KEY_LIMIT_PER_MINUTE": "1"}
    with commands.started("mcp", "--http", "--port", str(port), environment=settings):
        transport = httpx.AsyncHTTPTransport(retries=HTTP_SECONDS)
        async with httpx.AsyncClient(transport=transport, timeout=PATIENCE_SECONDS) as asking:
            wrong = [
                await asking.post(url, json={}, headers={"Authorization": f"Bearer rt_wrong{number}"})
                for number in range(2)
            ]
            right = await asking.post(url, json={}, headers={"Authorization": f"Bearer {key}"})

    assert [answer.status_code for answer in wrong] == [401, 429]
    assert right.status_code == 429
    assert right.json()["error"]["code"] == "rate_limited"
    assert 1 <= int(right.headers["Retry-After"]) <= 60
