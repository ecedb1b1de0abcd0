"""The pages of bills: a report is uploaded, an amount is typed, and each part of a difference has a way to its fix."""

import gzip
import re
from io import BytesIO

from quart.typing import TestClientProtocol as Browser
from werkzeug.datastructures import FileStorage

from tests.factories import make_run
from tests.pages.conftest import Post
from tests.pages.looking import html_of, text_of
from tests.pages.price_forms import refused

PATH = "/admin/bills"
ACTIVITY = (
    "date,model,requests,prompt_tokens,completion_tokens,usage,byok_usage_inference\n"
    "2026-03-02,made/<b>model,12,1000,100,1.25,0.5\n2026-03-03,made/<b>model,3,10,10,0.25,0\n"
)


async def send(reader: Browser, text: str | bytes, name: str = "activity.csv", **form: str) -> tuple[int, str, str]:
    """Upload a file, and return the status, where it leads, and the page."""
    files = {"files": FileStorage(BytesIO(text.encode() if isinstance(text, str) else text), filename=name)}
    response = await reader.post(PATH, form=form, files=files)
    return response.status_code, response.headers.get("Location", ""), await response.get_data(as_text=True)


async def test_a_report_is_uploaded_and_compared(reader: Browser) -> None:
    status, url, html = await send(reader, ACTIVITY, tolerance="1", replace="1")
    assert status == 303, html

    page = await html_of(reader, url)
    assert "<title>Bill of " in page
    found = text_of(page)

    assert "Bill of openrouter, 2 Mar \u2013 3 Mar 2026" in found
    assert "The vendor bills $2.00 more than was computed (100%). That is above the tolerance of $1." in found
    assert "made/<b>model" in found
    assert "<b>model" not in page
    assert "No price is known here +$2.00" in found
    assert "15 billed, 0 here" in found
    assert "OpenRouter's activity (SHA-256" in found
    [csv] = re.findall(r'href="([^"]+differences\.csv)"', page)
    response = await reader.get(csv)
    assert "openrouter,made/<b>model,2,0,2,noPrice,,2,," in await response.get_data(as_text=True)

    status, _, html = await send(reader, ACTIVITY)
    assert status == 422
    assert "There is a bill of openrouter from 2026-03-02 to 2026-03-03 already" in text_of(html)

    removed = await reader.post(url + "/remove", form={})
    assert removed.headers["Location"].endswith(PATH)
    await html_of(reader, url, 404)


async def test_an_amount_that_equals_the_costs_says_so(reader: Browser, post: Post, project_id: str) -> None:
    provider = f"vendor-{project_id}"
    await post(make_run(projectId=project_id, provider=provider, timestamp="2026-03-05T00:00:00Z", costUSD=3.5))
    sent = {"provider": provider, "month": "2026-03", "amount": "3.50"}

    response = await reader.post(PATH, form=sent)

    assert response.status_code == 303, await response.get_data(as_text=True)
    found = text_of(await html_of(reader, response.headers["Location"]))
    assert "Both are equal to the last digit." in found
    assert "An amount that was typed." in found


async def test_the_list_says_by_how_much_each_bill_differs(reader: Browser, post: Post, project_id: str) -> None:
    provider = f"list-{project_id}"
    for at in ("2026-02-28T23:59:59Z", "2026-03-01T00:00:00Z", "2026-03-31T23:59:59Z", "2026-04-01T00:00:00Z"):
        await post(make_run(projectId=project_id, provider=provider, timestamp=at, costUSD=3.5))
    for month, amount in (("2026-03", "7.75"), ("2026-04", "3.00"), ("2026-05", "0")):
        sent = {"provider": provider, "month": month, "amount": amount, "tolerance": "0.5"}
        response = await reader.post(PATH, form=sent)
        assert response.status_code == 303

    page = await html_of(reader, PATH)

    rows = [text_of(row).partition(provider)[2] for row in page.split("<tr") if provider in row]
    assert [row.partition(" developer")[0].strip() for row in rows] == [
        "1 May \u2013 31 May 2026 $0.00 $0.00 $0.00",
        "1 Apr \u2013 30 Apr 2026 $3.00 $3.50 \u2212$0.500",
        "1 Mar \u2013 31 Mar 2026 $7.75 $7.00 +$0.750, above the tolerance",
    ]


async def test_what_is_no_bill_is_refused_at_its_field(reader: Browser) -> None:
    assert "Choose files of the vendor, or give the amount" in await refused(reader, PATH)
    assert "An amount needs a vendor and a month" in await refused(reader, PATH, amount="3")
    assert "Write a month as 2026-11" in await refused(reader, PATH, amount="3", provider="x", month="May")
    assert "Give US dollars of 0 or more" in await refused(reader, PATH, amount="three")
    for text, name, message in (
        ("a,b\n1,2\n", "notes.csv", "is none of the reports that are known"),
        ("{", "notes.json", "is no JSON document"),
        (ACTIVITY, "activity.pdf", "is of no known kind"),
        (ACTIVITY.replace("2026-03-03", "2999-01-01"), "activity.csv", "which is not over"),
        (gzip.compress(ACTIVITY.replace("2026-03-03", "2999-01-01").encode()), "activity.csv.GZ", "which is not over"),
        (gzip.compress(ACTIVITY.encode() * 50_000), "activity.csv.gz", "is no gzip file of at most 5,242,880 bytes"),
        (ACTIVITY, "activity.csv.gz", "is no gzip file of at most"),
        (ACTIVITY.replace("<b>", "\0"), "activity.csv", "Line 2 has a name with a NUL character"),
        ("[" * 200_000, "deep.json", "is nested too deeply"),
        ('{"a":' * 200_000, "deep.jsonl", "is nested too deeply"),
    ):
        status, _, html = await send(reader, text, name)
        assert status == 422
        assert message in text_of(html)
