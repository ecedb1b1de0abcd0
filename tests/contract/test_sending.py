"""What docs/sending.md shows of the Python client, run as it stands there."""

import os
import subprocess
import sys
from pathlib import Path

from runtally.db.database import Database
from tests.guides import code_in
from tests.serving import Server

CLIENT = Path(__file__).parents[2] / "clients" / "python" / "src"


async def test_the_guide_shows_how_to_record_by_hand(server: Server, database: Database, project_id: str) -> None:
    (program,) = (block for block in code_in("sending.md", "python") if "openai" not in block)
    variables = {
        "PYTHONPATH": str(CLIENT),
        "RUNTALLY_API_KEY": server.ingest_key,
        "RUNTALLY_PROJECT": project_id,
        "RUNTALLY_URL": server.url,
    }
    subprocess.run([sys.executable, "-c", program], env=os.environ | variables, check=True)  # noqa: S603, ASYNC221  # As a reader would.

    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT model, input_tokens, output_tokens, session_id, user_id, tags, trace_id, metadata FROM runs "
            "WHERE project_id = $1 ORDER BY model",
            project_id,
        )
    large, small = (dict(row) for row in rows)
    assert (large["model"], large["input_tokens"], large["output_tokens"]) == ("acme-large", 1200, 350)
    assert (small["model"], small["input_tokens"], small["output_tokens"]) == ("acme-small", 90, 5)
    for run in (large, small):
        assert (run["session_id"], run["user_id"], run["tags"]) == ("s-42", "u-7", ["beta"])
        assert run["metadata"] == {"feature": "search"}
    assert large["trace_id"] == small["trace_id"] is not None
