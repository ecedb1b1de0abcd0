"""The pages on which an admin erases a person."""

import asyncio

from quart.typing import TestClientProtocol as Browser

from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from tests.documents import make_stored_run

PATIENCE_SECONDS = 120.0


async def page_with(reader: Browser, url: str, text: str) -> str:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            page = await (await reader.get(url)).get_data(as_text=True)
            if text in page:
                return page
            await asyncio.sleep(0.1)


async def test_runs_of_a_person_are_counted_and_then_erased_by_clicking(
    reader: Browser, database: Database, project_id: str
) -> None:
    name = f"Ann <{project_id}>"
    async with database.connection() as connection:
        await insert_runs(
            connection, [make_stored_run(project_id, "a", user_id=name), make_stored_run(project_id, "b")]
        )

    made = await reader.post("/admin/erasures", form={"user": name})
    url = made.headers["Location"]
    counted = await page_with(reader, url, "Counted. Nothing is deleted yet.")
    started = await reader.post(f"{url}/start")
    done = await page_with(reader, url, "Done. The name is forgotten")
    again = await reader.post(f"{url}/start")

    assert made.status_code == started.status_code == 303
    assert "Erase these runs for good" in counted
    assert f"Ann &lt;{project_id}&gt;" in counted
    assert project_id in done
    assert f"Ann &lt;{project_id}&gt;" not in done
    assert again.status_code == 422
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT array_agg(id) FROM runs WHERE project_id = $1", project_id) == ["b"]


async def test_a_person_without_runs_is_said_to_have_none(reader: Browser) -> None:
    made = await reader.post("/admin/erasures", form={"user": "nobody at all"})

    page = await page_with(reader, made.headers["Location"], "No project has runs of this user.")

    assert "Erase these runs" not in page


async def test_a_form_without_a_name_says_what_is_missing(reader: Browser) -> None:
    refused = await reader.post("/admin/erasures", form={"user": " "})

    assert refused.status_code == 422
    assert 'id="erasure-user-error"' in await refused.get_data(as_text=True)
