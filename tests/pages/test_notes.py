"""Notes on dates: added and deleted in a project's settings, and marked on its charts."""

import re

from quart.typing import TestClientProtocol as Browser

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from tests.documents import make_stored_run


async def text_of(reader: Browser, url: str) -> str:
    return await (await reader.get(url)).get_data(as_text=True)


async def test_a_note_is_added_marked_on_the_chart_by_tag_and_deleted(
    reader: Browser, database: Database, project_id: str
) -> None:
    run = make_stored_run(project_id, "a", occurred_at=system_clock(), tags=["beta"])
    async with database.connection() as connection:
        await insert_runs(connection, [run])
    settings, project = f"/projects/{project_id}/settings/notes", f"/projects/{project_id}"

    wrong = await reader.post(settings, form={"text": " ", "at": "soon"})
    empty = await reader.post(settings, form={"text": ""})
    added = await reader.post(settings, form={"text": "Prompt <v2>", "tag": "alpha"})
    everyone = await reader.post(settings, form={"text": "Moved to a new region"})
    listed, charts = await text_of(reader, settings), await text_of(reader, project)
    of_beta = await text_of(reader, f"{project}?tags=beta")
    of_alpha_chart = await text_of(reader, f"/charts/cost.json?project={project_id}&tags=alpha")
    async with database.connection() as connection:
        note_id = await connection.fetchval("SELECT id FROM notes WHERE project_id = $1 AND tag = 'alpha'", project_id)
    gone = await reader.post(f"{settings}/{note_id}/remove")

    assert (wrong.status_code, empty.status_code) == (422, 422)
    assert {"note-text-error", "note-at-error"} <= set(re.findall(r'id="([^"]+)"', await wrong.get_data(as_text=True)))
    assert "Enter a time such as" in await wrong.get_data(as_text=True)
    assert added.status_code == everyone.status_code == gone.status_code == 303
    assert "Prompt &lt;v2&gt;" in listed
    assert "Prompt &lt;v2&gt;" in charts
    assert "Moved to a new region" in charts
    assert "2 notes" in charts
    assert "Prompt &lt;v2&gt;" not in of_beta
    assert "Moved to a new region" in of_beta
    assert of_alpha_chart
    assert "Prompt &lt;v2&gt;" not in await text_of(reader, project)
