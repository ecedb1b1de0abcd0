"""What a deleted project had cost is in no sum over all projects, and each of them says so."""

import re
from decimal import Decimal

from quart.typing import TestClientProtocol as Browser

from runtally.clock import system_clock
from tests.factories import make_run
from tests.pages.conftest import Post, ago
from tests.pages.looking import html_of, text_of
from webapp import formats

# Months that no other test has runs in.
OLD = "/?since=2020-02-03&until=2020-04-05"


async def delete(reader: Browser, project_id: str) -> None:
    response = await reader.post(f"/projects/{project_id}/settings/delete", form={"typed": project_id})
    assert response.status_code == 303


async def test_totals_of_all_projects_say_by_month_what_they_lack(reader: Browser, post: Post, project_id: str) -> None:
    left = f"{project_id}-left"
    for name, cost in ((project_id, 2.5), (left, 1)):
        await post(
            make_run(provider="made-vendor", costUSD=cost, timestamp="2020-02-07T00:00:00Z"),
            make_run(provider="made-vendor", costUSD=cost * 2, timestamp="2020-04-01T00:00:00Z"),
            to=name,
        )
    before = text_of(await html_of(reader, OLD))
    assert "$10.50" in before
    assert "Not counted" not in before

    await delete(reader, project_id)

    after = text_of(await html_of(reader, OLD))
    assert "$3.00" in after
    said = "Not counted: $2.50 of Feb 2020 and $5.00 of Apr 2020, spent by projects that were deleted since."
    assert said in after
    assert "Not counted" not in text_of(await html_of(reader, "/?since=2020-03-01&until=2020-03-20"))
    assert "Not counted" not in text_of(await html_of(reader, f"/projects/{left}?since=2020-02-03&until=2020-04-05"))
    answer = await (
        await reader.get("/api/usage?aggregate=1&start=2020-02-03T00:00:00Z&end=2020-04-05T00:00:00Z&bucketWidth=1d")
    ).get_json()
    assert answer["deletedUSD"] == {"2020-02": 2.5, "2020-04": 5}
    assert "cost, USD by month 2020-02: 2.5, 2020-04: 5" in text_of(
        await html_of(reader, f"/admin/audit?project={project_id}")
    )


async def test_budgets_of_all_projects_say_what_they_lack_of_this_month(
    reader: Browser, post: Post, project_id: str
) -> None:
    await post(make_run(provider="made-vendor", costUSD=70_000, timestamp=ago(seconds=5)))
    await delete(reader, project_id)

    said = re.search(r"Not counted: .*deleted since\.", text_of(await html_of(reader, "/admin/budgets")))

    assert said
    amount = re.search(rf"\$([\d,.]+) of {formats.month(system_clock())}", said[0])
    assert amount
    assert Decimal(amount[1].replace(",", "")) >= 70_000


async def test_a_bill_says_what_projects_that_are_gone_had_cost(reader: Browser, post: Post, project_id: str) -> None:
    await post(make_run(provider="made-vendor", costUSD=4, timestamp="2020-07-05T00:00:00Z"))
    await delete(reader, project_id)

    stored = await reader.post("/admin/bills", form={"provider": "made-vendor", "month": "2020-07", "amount": "4"})

    url = stored.headers["Location"]
    assert "Not counted: $4.00 of Jul 2020, spent by projects that were deleted since." in text_of(
        await html_of(reader, url)
    )
    answer = await (await reader.get(f"/api/bills/{url.rpartition('/')[2]}")).get_json()
    assert answer["deletedUSD"] == {"2020-07": 4}
