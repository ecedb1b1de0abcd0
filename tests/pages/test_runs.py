"""The run explorer, a run with its cost explained, and a trace: what they show, and to whom."""

import re
from urllib.parse import quote, urlsplit

import pytest
from quart.typing import TestClientProtocol as Browser

from runtally.access.keys import SHARED_KEY_NAME
from runtally.access.scopes import Scope
from tests.factories import make_run
from tests.pages.conftest import Post, SignIn, ago
from tests.pages.looking import PARTIAL, Outline, html_of, part_of, text_of

READ = Scope.RUNS_READ


async def test_runs_are_listed_with_their_totals(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(runId="one"), make_run(status="error", errorCode="rate_limited"), make_run(model="unheard-of"))

    html = await html_of(reader, f"/runs?project={project_id}")

    text = text_of(html)
    assert "3 runs, $0.0210 or more" in text
    assert "1 without a price" in text
    assert "error: rate_limited" in text
    assert "unheard-of" in text
    assert "no price" in text
    assert f"/projects/{project_id}/runs/one" in [link["href"] for link in Outline(html).all("a")]


async def test_a_filter_becomes_a_chip_that_takes_it_away(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(metadata={"user": "ann"}), make_run(model="acme-cached", metadata={"user": "bob"}))
    url = f"/runs?project={project_id}&model=acme-cached&metadataKey=user&metadataValue=bob&range=24h"

    html = await html_of(reader, url)

    assert "1 run, $0.01" in text_of(html)
    chips = [link["href"] for link in Outline(html).all("a") if link.get("class") == "chip"]
    assert f"/runs?project={project_id}&metadataKey=user&metadataValue=bob&range=24h" in chips
    assert f"/runs?project={project_id}&model=acme-cached&range=24h" in chips


async def test_empty_fields_of_a_form_leave_no_trace_in_the_address(reader: Browser, project_id: str) -> None:
    query = f"/runs?q=&project={project_id}&model=&status=failed&column=cost"
    address = f"/runs?project={project_id}&status=failed&column=cost"

    plain = await reader.get(query)
    part = await reader.get(query, headers=PARTIAL)

    assert (plain.status_code, plain.headers["Location"]) == (303, address)
    assert (part.status_code, part.headers["HX-Push-Url"]) == (200, address)


async def test_an_invalid_value_is_kept_with_an_error_at_its_field(reader: Browser) -> None:
    html = await part_of(reader, "/runs?minCost=much&metadataValue=x", 422)

    outline = Outline(html)
    field = outline.by_id("filter-minCost")
    assert field["value"] == "much"
    assert field["aria-describedby"] == "filter-minCost-error"
    assert "open" in outline.by_id("runs-further")
    assert "This must be an amount in US dollars, such as 0.05." in text_of(html)
    assert "This must say which key has the value." in text_of(html)


async def test_what_is_wrong_in_the_address_and_has_no_field_is_said(reader: Browser) -> None:
    place = text_of(await html_of(reader, "/runs?before=nonsense", 422))
    range_ = text_of(await html_of(reader, "/runs?range=soon", 422))

    assert "before must be the address of a link on the page; start again from the newest runs." in place
    assert "Correct the address. range must be one of " in range_


async def test_no_runs_offer_a_longer_time_and_no_filter(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(timestamp=ago(days=20)))

    html = await html_of(reader, f"/runs?project={project_id}&status=success")

    text = text_of(html)
    assert "No matching runs. Search all time Clear filters" in text
    links = [link["href"] for link in Outline(html).all("a")]
    assert f"/runs?project={project_id}&status=success&range=all" in links
    assert f"/runs?project={project_id}" in links


async def test_pages_lead_on_and_back(reader: Browser, post: Post, project_id: str) -> None:
    await post(*(make_run(runId=f"run-{number:02}", timestamp=ago(minutes=number)) for number in range(70)))
    first = Outline(await html_of(reader, f"/runs?project={project_id}"))

    second = Outline(await html_of(reader, first.by_id("runs-older")["href"] or ""))

    assert "runs-newer" not in first.ids()
    assert "runs-older" not in second.ids()
    rows = [link["href"] or "" for link in second.all("a") if "/runs/run-" in (link["href"] or "")]
    assert rows[0].endswith("run-50")
    assert len(rows) == 20
    back = await html_of(reader, second.by_id("runs-newer")["href"] or "")
    assert "run-00" in back
    assert "run-50" not in back


async def test_columns_are_chosen_and_stay_chosen(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(traceId="trace-1"))

    html = await html_of(reader, f"/runs?project={project_id}&column=trace&column=cost")

    assert "Time↓ Trace Cost" in text_of(html)
    ranges = [link["href"] or "" for link in Outline(html).all("a") if "range=30d" in (link["href"] or "")]
    assert ranges
    assert all("column=trace&column=cost" in href for href in ranges)


async def test_numbers_sort_the_runs_and_the_heading_says_how(reader: Browser, post: Post, project_id: str) -> None:
    await post(
        make_run(runId="cheap", inputTokens=10, latencyMs=900),
        make_run(runId="dear", inputTokens=90_000, latencyMs=100),
        make_run(runId="unpriced", model="unheard-of", latencyMs=300),
    )

    def order(html: str) -> list[str]:
        links = [link["href"] or "" for link in Outline(html).all("a")]
        return [href.rpartition("/")[2] for href in links if f"/projects/{project_id}/runs/" in href]

    costliest = await html_of(reader, f"/runs?project={project_id}&sort=cost")
    cheapest = await html_of(reader, f"/runs?project={project_id}&sort=-cost")
    slowest = await html_of(reader, f"/runs?project={project_id}&sort=latency")

    assert order(costliest) == ["dear", "cheap", "unpriced"]
    assert order(cheapest) == ["cheap", "dear", "unpriced"]
    assert order(slowest) == ["cheap", "unpriced", "dear"]
    assert "Costliest first" in text_of(costliest)
    assert Outline(costliest).by_id("sort-cost")["href"] == f"/runs?project={project_id}&sort=-cost"
    assert Outline(costliest).by_id("sort-time")["href"] == f"/runs?project={project_id}"
    assert "3 runs" in text_of(costliest)


async def test_sorted_runs_have_pages_with_numbers(reader: Browser, post: Post, project_id: str) -> None:
    await post(*(make_run(runId=f"run-{number:02}", inputTokens=1_000 + number) for number in range(70)))

    first = Outline(await html_of(reader, f"/runs?project={project_id}&sort=tokensIn"))
    second = Outline(await html_of(reader, first.by_id("runs-older")["href"] or ""))

    rows = [link["href"] or "" for link in second.all("a") if "/runs/run-" in (link["href"] or "")]
    assert [row[-6:] for row in rows] == [f"run-{number:02}" for number in range(19, -1, -1)]
    assert "runs-older" not in second.ids()
    assert second.by_id("runs-newer")["href"] == f"/runs?project={project_id}&sort=tokensIn"


async def test_a_calendar_range_stays_in_the_address_and_is_exact(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(), make_run(timestamp=ago(days=70)))

    html = await html_of(reader, f"/runs?project={project_id}&range=90d")

    assert "2 runs, $0.0210 Last 90 days" in text_of(html)
    assert f"/runs?project={project_id}&range=90d&sort=cost" in [link["href"] for link in Outline(html).all("a")]
    assert ("range", "90d") in {(field["name"], field.get("value")) for field in Outline(html).all("input")}


async def test_a_key_of_metadata_and_its_value_are_one_field(reader: Browser, project_id: str) -> None:
    response = await reader.get(f"/runs?project={project_id}&metadata=feature%3Dsearch%3Dnew")

    address = f"/runs?project={project_id}&metadataKey=feature&metadataValue=search%3Dnew"
    assert (response.status_code, response.headers["Location"]) == (303, address)
    html = await html_of(reader, address)
    assert Outline(html).by_id("filter-metadata")["value"] == "feature=search=new"
    assert "feature search=new" in text_of(html)


async def test_a_cost_is_explained_line_by_line(reader: Browser, post: Post, project_id: str) -> None:
    await post(
        make_run(
            runId="a",
            model="acme-cached",
            inputTokens=1000,
            cachedInputTokens=400,
            outputTokens=100,
            costUSD=0.004,
            metadata={"user": "ann"},
        )
    )

    text = text_of(await html_of(reader, f"/projects/{project_id}/runs/a"))

    assert "$0.00342" in text
    assert "Input 600 \u00d7 $3.00 = $0.0018" in text
    assert "Cache read 400 \u00d7 $0.30 = $0.00012" in text
    assert "Output 100 \u00d7 $15.00 = $0.0015" in text
    assert "Price set by an admin of acme acme-cached, no end date." in text
    assert "The client reported $0.004; computed is $0.00058 less than reported." in text
    assert '"user": "ann"' in text


@pytest.mark.parametrize(
    ("run", "why"),
    [
        ({"model": "unheard-of"}, "No price is known for this model"),
        ({"model": "unheard-of", "costUSD": 1}, "the cost that the client reported is kept as an estimate"),
        ({"provider": "openrouter", "costUSD": 1}, "The provider reported this cost with the run"),
        ({"model": "acme-old"}, "in force since 1 Jan 2026"),
    ],
    ids=["unknown", "kept", "trusted", "dated"],
)
async def test_a_cost_is_shown_with_its_source(
    reader: Browser, post: Post, project_id: str, run: dict[str, object], why: str
) -> None:
    await post(make_run(runId="a", **run))

    assert why in text_of(await html_of(reader, f"/projects/{project_id}/runs/a"))


async def test_a_failed_runs_page_begins_with_what_went_wrong(reader: Browser, post: Post, project_id: str) -> None:
    await post(
        make_run(runId="a", status="error", errorCode="overloaded", metadata={"feature": "search", "deep": {"a": 1}}),
        make_run(runId="b", status="error", errorCode="other"),
        make_run(runId="c", status="error", errorCode="overloaded"),
    )

    html = await html_of(reader, f"/projects/{project_id}/runs/a")

    text = text_of(html)
    assert text.index("Failed: overloaded Same error, last 7 days") < text.index("Cost")
    links = [link["href"] or "" for link in Outline(html).all("a")]
    assert f"/runs?project={project_id}&metadataKey=feature&metadataValue=search" in links
    assert not [link for link in links if "metadataKey=deep" in link]
    [similar] = {link for link in links if "errorCode=overloaded" in link and "status=error" in link}
    assert "2 runs" in text_of(await html_of(reader, similar))
    assert "Failed" not in text_of(await html_of(reader, f"/projects/{project_id}/runs/none", 404))


@pytest.mark.parametrize("run_id", ["a/b", "runs/x/settings", "..", "a b?c#d%e", "~runs"])
async def test_an_id_may_be_any_text(reader: Browser, post: Post, project_id: str, run_id: str) -> None:
    project = f"{project_id}/runs/x"
    await post(make_run(runId=run_id, traceId=run_id), to=project)

    listed = Outline(await html_of(reader, f"/runs?project={quote(project, safe='')}"))
    [link] = [link["href"] or "" for link in listed.all("a") if "/x/runs/" in (link["href"] or "")]
    one = await html_of(reader, link)
    [trace] = {link["href"] or "" for link in Outline(one).all("a") if "/traces/" in (link["href"] or "")}

    assert "acme-large" in text_of(one)
    assert "Steps 1" in text_of(await html_of(reader, trace))
    assert project in text_of(await html_of(reader, f"/projects/{project_id}/~runs/x"))


async def test_a_run_is_shown_with_its_user_and_its_key(reader: Browser, post: Post, project_id: str) -> None:
    run = make_run(
        runId="one", userId="ann", sessionId="s-1", tags=["a", "b"], finishReason="stop", timeToFirstTokenMs=210
    )
    await post(run)

    text = text_of(await html_of(reader, f"/projects/{project_id}/runs/one"))

    for fact in ("User ann", "Session s-1", "Tag a", "Tag b", "Finish reason stop", "Time to first token 210 ms"):
        assert fact in text
    assert f"Ingest key {SHARED_KEY_NAME}" in text


async def test_a_run_is_shown_with_its_further_units_its_tier_and_its_region(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(make_run(runId="one", units={"webSearch": 2, "made up": 1234.5}, serviceTier="flex", region="us"))

    text = text_of(await html_of(reader, f"/projects/{project_id}/runs/one"))

    for fact in ("Web searches 2", "made up 1,234.5", "Service tier flex", "Region us"):
        assert fact in text


async def test_a_trace_shows_its_steps_in_time(reader: Browser, post: Post, project_id: str) -> None:
    await post(
        make_run(runId="b", traceId="t", timestamp=ago(seconds=10), latencyMs=1000, status="timeout"),
        make_run(runId="a", traceId="t", timestamp=ago(seconds=12), latencyMs=2000),
        make_run(runId="c", traceId="other"),
    )

    html = await html_of(reader, f"/projects/{project_id}/traces/t")

    text = text_of(html)
    assert "Steps 2" in text
    assert "Failed 1" in text
    assert "Cost $0.0210" in text
    steps = [link["href"] or "" for link in Outline(html).all("a") if "/runs/" in (link["href"] or "")]
    assert [urlsplit(href).path[-1] for href in steps] == ["a", "b"]


async def test_a_step_of_a_trace_names_its_agent_and_operation_and_marks_its_first_token(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(
        make_run(
            runId="a",
            traceId="t",
            timestamp=ago(seconds=12),
            latencyMs=2000,
            timeToFirstTokenMs=500,
            metadata={"agent": "planner", "operation": "chat"},
        ),
        make_run(runId="b", traceId="t", timestamp=ago(seconds=10), latencyMs=2000),
    )

    html = await html_of(reader, f"/projects/{project_id}/traces/t")

    assert "planner · chat" in text_of(html)
    assert "first token 500 ms" in text_of(html)
    # A quarter of the first step, which is half of the trace; each step has a bar for wide screens and one for narrow ones.
    assert re.findall(r'class="waterfall-first" x="([\d.]+)%"', html) == ["12.5", "12.5"]


async def test_a_run_of_a_span_names_what_recorded_it(reader: Browser, post: Post, project_id: str) -> None:
    recorded = {"instrumentation": "openai.v2"}
    await post(
        make_run(runId="t-1", traceId="t", metadata=recorded), make_run(runId="own", traceId="t", metadata=recorded)
    )

    html = await html_of(reader, f"/projects/{project_id}/runs/t-1")

    assert "From OpenTelemetry, openai.v2" in text_of(html)
    # That line, and the metadata below it.
    assert sum("metadataValue=openai.v2" in (link["href"] or "") for link in Outline(html).all("a")) == 2
    assert "OpenTelemetry" not in text_of(await html_of(reader, f"/projects/{project_id}/runs/own"))


async def test_columns_show_the_user_the_session_and_the_time_to_the_first_token(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(make_run(userId="ada", sessionId="session-7", timeToFirstTokenMs=420))

    text = text_of(
        await html_of(reader, f"/runs?project={project_id}&column=user&column=session&column=firstToken&column=cost")
    )

    for part in ("User", "Session", "First token", "ada", "session-7", "420 ms"):
        assert part in text


@pytest.mark.parametrize("path", ["/runs/none", "/traces/none"])
async def test_an_unknown_run_is_not_found_with_the_reason(reader: Browser, project_id: str, path: str) -> None:
    text = text_of(await html_of(reader, f"/projects/{project_id}{path}", 404))

    assert "it may have been deleted" in text


async def test_a_project_s_runs_are_the_explorer_with_that_project(reader: Browser, project_id: str) -> None:
    response = await reader.get(f"/projects/{project_id}/runs")

    assert (response.status_code, response.headers["Location"]) == (303, f"/runs?project={project_id}")


async def test_a_run_without_a_price_leads_to_where_it_is_entered(
    reader: Browser, signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post(make_run(runId="a", model="new & free"))
    url = f"/projects/{project_id}/runs/a"

    assert 'href="/admin/prices/new?provider=acme&amp;model=new+%26+free"' in await html_of(reader, url)
    assert "Add price" not in await html_of(await signed_in(project_id, READ), url)


async def test_a_run_is_found_by_its_id_from_a_page_that_is_not_there(
    reader: Browser, signed_in: SignIn, post: Post, project_id: str
) -> None:
    run_id = f"run-{project_id}"
    await post(make_run(runId=run_id))
    await post(make_run(runId=f"{run_id}-twice"), make_run(runId="a b"))
    await post(make_run(runId=f"{run_id}-twice"), to=f"{project_id}-other")
    outline = Outline(await html_of(reader, f"/projects/{project_id}/runs/gone", 404))
    assert outline.by_id("find-run")["name"] == "q"
    other = await signed_in(f"{project_id}-other", READ)

    async def found(browser: Browser, id_: str) -> str:
        return (await browser.get(f"/runs/find?q={id_}")).headers["Location"]

    assert await found(reader, run_id) == f"/projects/{project_id}/runs/{run_id}"
    assert await found(reader, f"{run_id}-twice") == f"/runs?q={run_id}-twice&range=all"
    assert await found(other, f"{run_id}-twice") == f"/projects/{project_id}-other/runs/{run_id}-twice"
    assert await found(other, run_id) == f"/runs?q={run_id}&range=all"
    assert await found(reader, "") == "/runs?range=all"


PAGES = ["/runs", "/runs?project={}", "/runs/export.csv?project={}", "/projects/{}/runs/a", "/projects/{}/traces/t"]


@pytest.mark.parametrize("page", PAGES)
async def test_nobody_sees_the_runs_of_another_project(
    signed_in: SignIn, stranger: Browser, post: Post, project_id: str, page: str
) -> None:
    await post(make_run(runId="a", traceId="t", model="secret-model"))
    other, without = await signed_in(f"{project_id}-other", READ), await signed_in(project_id, Scope.METRICS_READ)
    url = page.format(project_id)

    assert (await stranger.get(url)).status_code == 303
    assert (await without.get(url)).status_code == 403
    response = await other.get(url)
    assert "secret-model" not in await response.get_data(as_text=True)
    assert response.status_code == (200 if page == "/runs" else 403)


async def test_a_key_sees_its_own_runs_and_no_other_project_s_name(
    signed_in: SignIn, post: Post, project_id: str
) -> None:
    await post(make_run(runId="a", traceId="t"))
    await post(to=f"{project_id}-other")
    member = await signed_in(project_id, READ)

    html = await html_of(member, "/runs")

    assert "1 run, $0.01" in text_of(html)
    assert f"{project_id}-other" not in html
    assert 'name="project"' in html
    for page in PAGES:
        assert (await member.get(page.format(project_id))).status_code == 200


async def test_live_mode_is_offered_where_new_runs_can_be_seen(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run())
    url = f"/runs?project={project_id}&range=24h"

    outline = Outline(await part_of(reader, f"{url}&live=1"))
    over = Outline(await html_of(reader, f"/runs?project={project_id}&since=2026-01-01T00:00&until=2026-01-02T00:00"))

    assert outline.by_id("live-switch")["href"] == url
    assert outline.by_id("live")["hx-get"] == f"{url}&live=1"
    assert "live-switch" not in over.ids()


async def test_neither_live_mode_nor_back_adds_a_page_to_the_browsers_history(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(make_run())
    url = f"/runs?project={project_id}&range=24h&live=1"
    part = {"HX-Request": "true", "HX-Request-Type": "partial"}

    again = await reader.get(url, headers={**part, "HX-Current-URL": f"http://localhost{url}"})
    changed = await reader.get(url, headers={**part, "HX-Current-URL": "http://localhost/runs"})
    back = await reader.get(url, headers={"HX-Request-Type": "full", "HX-History-Restore-Request": "true"})

    assert "HX-Push-Url" not in again.headers
    assert "HX-Push-Url" not in back.headers
    assert changed.headers["HX-Push-Url"] == url


@pytest.mark.parametrize("page", ["/runs?project={}", "/?", "/breakdown?project={}", "/projects/{}/sessions?"])
async def test_an_order_that_there_is_not_is_named(reader: Browser, post: Post, project_id: str, page: str) -> None:
    await post(make_run(sessionId="one"))
    url = page.format(project_id)

    assert "Unknown sort order “speed”. Showing the default order." in text_of(
        await html_of(reader, f"{url}&sort=-speed")
    )
    assert "Unknown sort order" not in text_of(await html_of(reader, f"{url}&sort=runs" if "runs?" not in url else url))


async def test_a_failed_run_tells_how_many_failed_alike(reader: Browser, post: Post, project_id: str) -> None:
    failed = {"status": "error", "errorCode": "rate_limited"}
    await post(make_run(runId="one", **failed), make_run(**failed), make_run(status="error", errorCode="other"))
    await post(make_run(runId="fine"))

    assert "Same error, last 7 days: 2 runs" in text_of(await html_of(reader, f"/projects/{project_id}/runs/one"))
    assert "Same error" not in text_of(await html_of(reader, f"/projects/{project_id}/runs/fine"))
