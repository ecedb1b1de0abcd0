"""`runtally import` against a real server: what it stores is what the file says, and no second time."""

import csv
import gzip
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.files import CHECKOUT
from runtally.reporting.copy_queries import upsert_reported
from runtally.usage.upkeep.verify_queries import verify_sums
from tests.commands import Finished, run_beside
from tests.documents import make_stored_run
from tests.factories import make_run
from tests.serving import Server, running_server
from tests.stored import until_merged

AIDER = CHECKOUT.parent / "shared" / "data" / "aider.csv.gz"
AIDER_MAPPING = (
    *("--map", "main_model=model", "--default", "model=unknown", "--default", "provider=unknown"),
    *("--map", "event=status", "--value", "event:message_send=success"),
    *("--value", "event:message_send_exception=error"),
    *("--map", "time_unix=timestamp:s", "--map", "approx_latency_s=latencyMs:s"),
    *("--map", "user=metadata.user", "--map", "edit_format=metadata.edit_format"),
)

# By where and when a run was stored.
CHANGED = {"project_id", "created_at", "key_id", "version"}
TIME = "2026-11-20T10:00:00Z"
USAGE = f"provider,model,date,prompt_tokens,prompt\nacme,acme-large,{TIME},1,secret words\nacme,acme-large,{TIME},2,\n"


@dataclass(frozen=True)
class Sums:
    """What an import must not change."""

    runs: int
    input_tokens: int
    output_tokens: int
    failed: int


async def runtally(server: Server, *arguments: str | Path, key: str | None = None) -> Finished:
    environment = {"DATA_DIR": "/nonexistent", "INGEST_API_KEY": server.ingest_key if key is None else key}
    return await run_beside(*map(str, arguments), "--url", server.url, environment=environment)


async def stored_sums(database: Database, project_id: str) -> Sums:
    async with database.connection() as connection:
        row = await connection.fetchrow(
            """
            SELECT count(*) AS runs, coalesce(sum(input_tokens), 0) AS input_tokens,
                   coalesce(sum(output_tokens), 0) AS output_tokens,
                   count(*) FILTER (WHERE status <> 'success') AS failed
              FROM runs
             WHERE project_id = $1
            """,
            project_id,
        )
    assert row is not None
    return Sums(*(int(value) for value in row.values()))


def sums_of_aider() -> Sums:
    """Straight from the file, by nothing but the standard library."""
    with gzip.open(AIDER, "rt", encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    return Sums(
        runs=len(rows),
        input_tokens=sum(int(row["prompt_tokens"] or 0) for row in rows),
        output_tokens=sum(int(row["completion_tokens"] or 0) for row in rows),
        failed=sum(row["event"] == "message_send_exception" for row in rows),
    )


@pytest.fixture
def usage_csv(tmp_path: Path) -> Path:
    path = tmp_path / "usage.csv"
    path.write_text(USAGE)
    return path


@pytest.mark.skipif(not AIDER.exists(), reason=f"{AIDER} is not here: real usage data is not part of the repository")
async def test_a_real_file_is_stored_whole_and_a_second_import_adds_nothing(
    server: Server, database: Database, project_id: str
) -> None:
    expected = sums_of_aider()

    first = await runtally(server, "import", AIDER, "--project", project_id, *AIDER_MAPPING)
    after_first = await stored_sums(database, project_id)
    second = await runtally(server, "import", AIDER, "--project", project_id, *AIDER_MAPPING)

    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert after_first == expected
    assert f"{expected.runs:,} runs added, 0 there already, 0 rows rejected" in first.out
    assert f"0 runs added, {expected.runs:,} there already, 0 rows rejected" in second.out
    assert await stored_sums(database, project_id) == expected


async def test_the_same_rows_under_another_name_add_nothing(
    server: Server, database: Database, project_id: str, usage_csv: Path
) -> None:
    await runtally(server, "import", usage_csv, "--project", project_id)
    zipped = usage_csv.with_name("renamed.csv.gz")
    zipped.write_bytes(gzip.compress(USAGE.encode()))

    again = await runtally(server, "import", zipped, "--project", project_id)

    assert "0 runs added, 2 there already" in again.out
    assert (await stored_sums(database, project_id)).runs == 2


async def test_identical_rows_are_counted_each(
    server: Server, database: Database, project_id: str, tmp_path: Path
) -> None:
    path = tmp_path / "same.jsonl"
    path.write_text(json.dumps({"provider": "acme", "model": "acme-large", "ts": TIME, "inputTokens": 5}) + "\n")
    path.write_text(path.read_text() * 3)

    await runtally(server, "import", path, "--project", project_id)

    assert await stored_sums(database, project_id) == Sums(runs=3, input_tokens=15, output_tokens=0, failed=0)


async def test_bad_rows_are_named_by_line_and_the_good_ones_stored(
    server: Server, database: Database, project_id: str, tmp_path: Path
) -> None:
    path = tmp_path / "mixed.jsonl"
    rows: list[dict[str, str | int]] = [
        {"provider": "acme", "model": "acme-large", "timestamp": TIME, "inputTokens": 1} for _ in range(4)
    ]
    rows[1]["model"] = ""  # Found here.
    rows[2]["timestamp"] = "1999-12-31T00:00:00Z"  # Found by the server.
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    finished = await runtally(server, "import", path, "--project", project_id)

    assert finished.code == 1
    assert "2 runs added, 0 there already, 2 rows rejected" in finished.out
    assert "Line 2: model is missing" in finished.err
    assert "Line 3: timestamp" in finished.err
    assert "1999" not in finished.err
    assert (await stored_sums(database, project_id)).runs == 2


async def test_content_is_neither_sent_nor_kept_and_the_command_says_so(
    server: Server, database: Database, project_id: str, usage_csv: Path
) -> None:
    finished = await runtally(server, "import", usage_csv, "--project", project_id)

    async with database.connection() as connection:
        kept = await connection.fetch("SELECT runs::text FROM runs WHERE project_id = $1", project_id)
    assert "Never sent, named like content: prompt." in finished.out
    assert len(kept) == 2
    assert not any("secret words" in row[0] for row in kept)


async def test_a_dry_run_stores_nothing(server: Server, database: Database, project_id: str, tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_text(USAGE.replace(",prompt\n", ",billed_tokens\n"))

    finished = await runtally(server, "import", path, "--project", project_id, "--dry-run")

    assert finished.code == 0
    assert "Warning: not used, but named like tokens, a cost or a time: billed_tokens." in finished.err
    assert "2 rows would be sent" in finished.out
    assert (await stored_sums(database, project_id)).runs == 0


async def test_a_wrong_key_fails_and_is_not_shown(server: Server, project_id: str, usage_csv: Path) -> None:
    finished = await runtally(server, "import", usage_csv, "--project", project_id, key="a-wrong-key")

    assert finished.code == 1
    assert "key is wrong" in finished.err
    assert "a-wrong-key" not in finished.out + finished.err


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (("--map", "nothing=model"), "no column 'nothing'"),
        (("--map", "model=nothing"), "no field 'nothing'"),
        (("--map", "prompt=metadata.note"), "never sent"),
        (("--project", " "), "1 to 128 characters"),
        (("--key", "a\nb"), "No key has such characters"),
        (("--key", "ключ"), "No key has such characters"),
    ],
)
async def test_a_wrong_option_is_wrong_usage(
    server: Server, project_id: str, usage_csv: Path, option: tuple[str, str], says: str
) -> None:
    finished = await runtally(server, "import", usage_csv, "--project", project_id, *option)

    assert finished.code == 2
    assert says in finished.err


async def test_a_preview_as_json_has_the_format_the_counts_and_the_totals(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "observations.jsonl"
    call = {"id": "o1", "type": "GENERATION", "startTime": TIME, "model": "gpt-5.5", "levelCost": 3}
    rows = [
        {**call, "type": "SPAN", "usageDetails": {}},
        {**call, "usageDetails": {"input": 7, "input_cached_tokens": 2, "output": 5}, "totalCost": 0.25},
        {**call, "startTime": None, "usageDetails": {"input": 100}},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))

    finished = await runtally(server, "import", path, "--dry-run", "--json")

    assert finished.code == 1
    assert json.loads(finished.out) == {
        "format": "langfuse",
        "runs": 1,
        "sums": 0,
        "rejected": 1,
        "unused": ["levelCost"],
        "totals": {
            "inputTokens": 109,
            "outputTokens": 5,
            "cachedInputTokens": 2,
            "cacheWriteTokens": 0,
            "reasoningTokens": 0,
            "costUSD": 0.25,
        },
    }


async def test_a_report_of_days_is_refused_before_anything_is_sent(
    server: Server, database: Database, project_id: str, tmp_path: Path
) -> None:
    path = tmp_path / "costs.jsonl"
    path.write_text(json.dumps({"starting_at": TIME, "amount": "12345.67", "currency": "USD", "cost_type": "tokens"}))

    finished = await runtally(server, "import", path, "--project", project_id)

    assert finished.code == 2
    assert "This is Anthropic's report of costs: sums of days, not calls" in finished.err
    assert await stored_sums(database, project_id) == Sums(0, 0, 0, 0)


async def test_decimal_commas_and_times_of_a_zone_are_read_where_an_option_says_so(
    server: Server, database: Database, project_id: str, tmp_path: Path
) -> None:
    path = tmp_path / "kosten.csv"
    path.write_text("model;date;prompt_tokens;cost\ngpt-5.5;2026-11-20 10:00;1.234;0,5\n")
    arguments = ("import", path, "--project", project_id, "--decimal-comma", "--zone")

    assert (await runtally(server, *arguments, "Mars/Olympus")).code == 2
    finished = await runtally(server, *arguments, "Europe/Berlin")

    assert finished.code == 0
    assert "Totals of the file: 1,234 inputTokens, $0.5." in finished.out
    async with database.connection() as connection:
        row = await connection.fetchrow("SELECT input_tokens, occurred_at FROM runs WHERE project_id = $1", project_id)
    assert row is not None
    assert (row["input_tokens"], row["occurred_at"].isoformat()) == (1_234, "2026-11-20T09:00:00+00:00")


async def test_answers_of_a_batch_without_a_time_are_refused_with_what_to_add(
    server: Server, project_id: str, tmp_path: Path
) -> None:
    message = {"id": project_id, "model": "claude-opus-4-8", "usage": {"input_tokens": 7, "output_tokens": 5}}
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps({"custom_id": "a", "result": {"type": "succeeded", "message": message}}))

    refused = await runtally(server, "import", path, "--project", project_id)
    taken = await runtally(server, "import", path, "--project", project_id, "--default", f"timestamp={TIME}")

    assert refused.code == 1
    assert "Totals without the rejected rows: nothing." in refused.out
    assert "Line 1: timestamp is missing; map a column to it, or say --default timestamp=now" in refused.err
    assert taken.code == 0
    assert "1 runs added" in taken.out


@pytest.mark.parametrize("name", ["csv", "jsonl"])
async def test_an_own_export_adds_nothing_where_its_runs_are_and_the_same_runs_elsewhere(
    server: Server, client: httpx.AsyncClient, project_id: str, tmp_path: Path, name: str
) -> None:
    runs = [
        make_run(runId="-1", id="=own", units={"webSearch": 2}, serviceTier="flex", region="us", tags=["a", "b"]),
        make_run(runId="'+x", status="error", errorCode="-3", metadata={"env": "production", "n": 1.50}),
        make_run(runId="reported", model="nobody-knows-it", costUSD=0.123456789, idempotencyKey="once"),
        make_run(runId="both", costUSD=0.25, cachedInputTokens=7, latencyMs=0),
    ]
    posted = await client.post("/api/ingest", json={"projectId": project_id, "runs": runs})
    assert posted.status_code == 200, posted.text
    settings = {"DATABASE_URL": server.database_url, "DATA_DIR": "/nonexistent"}

    async def exported(project: str) -> Path:
        path = tmp_path / f"{project}.{name}"
        arguments = ("runs", "export", "--project", project, "--range", "all", "--format", name, "--output", str(path))
        finished = await run_beside(*arguments, environment=settings)
        assert finished.code == 0, finished.err
        return path

    first = await exported(project_id)
    again = await runtally(server, "import", first, "--project", project_id)
    elsewhere = await runtally(server, "import", first, "--project", f"{project_id}-2")
    second = await exported(f"{project_id}-2")

    assert again.out.startswith("0 runs added, 4 there already"), again.out + again.err
    assert elsewhere.out.startswith("4 runs added, 0 there already"), elsewhere.out + elsewhere.err
    assert "Warning" not in elsewhere.err

    def rows(path: Path) -> list[dict[str, object]]:
        with path.open(newline="") as file:
            read = csv.DictReader(file) if name == "csv" else map(json.loads, file)
            found = [{key: row[key] for key in row if key not in CHANGED} | labels(row) for row in read]
        return sorted(found, key=lambda row: str(row["id"]))

    def labels(row: dict[str, Any]) -> dict[str, object]:
        """Return the metadata without the id of the import."""
        told = row.get("metadata")
        kept = json.loads(told) if told and isinstance(told, str) else told or {}
        return {"metadata": {key: value for key, value in kept.items() if key != "import"}}

    assert rows(second) == rows(first)
    assert len(rows(first)) == 4


async def test_an_import_can_be_undone_with_its_sums_queue_and_reported_copies(
    own: Database, empty_database_url: str, tmp_path: Path
) -> None:
    wrong, right = tmp_path / "wrong.csv", tmp_path / "right.csv"
    wrong.write_text(
        f"provider,model,date,prompt_tokens,cost,latency_ms\nacme,old,{TIME},1,2.5,90\nacme,new,{TIME},2,1,80\n"
    )
    right.write_text(f"provider,model,date,prompt_tokens,cost,latency_ms\nacme,new,{TIME},3,0.25,70\n")
    with running_server(empty_database_url) as server:
        of_wrong = await runtally(server, "import", wrong, "--project", "shop")
        of_right = await runtally(server, "import", right, "--project", "shop")
        again = await runtally(server, "import", wrong, "--project", "shop")
    import_id = of_wrong.err.split("This is import ")[1].split(";")[0]
    async with own.connection() as connection:
        reported = await connection.fetch("SELECT id FROM runs ORDER BY input_tokens")
        await upsert_reported(connection, [make_stored_run("shop", row["id"]) for row in reported], system_clock())
    await until_merged(own)

    async def undo(*options: str, of: str = import_id) -> Finished:
        environment = {"DATABASE_URL": empty_database_url, "DATA_DIR": str(tmp_path)}
        return await run_beside("import", "--undo", of, "--project", "shop", *options, environment=environment)

    looked, unknown, undone, twice = (
        await undo("--dry-run"),
        await undo("--yes", of="none"),
        await undo("--yes"),
        await undo(),
    )

    said = f"Import {import_id} added 2 runs to shop: 2026-11-20 10:00 to 2026-11-20 10:00 UTC, 3.5 USD."
    assert "This is import" in of_right.err
    assert "This is import" not in again.err
    assert looked.out.splitlines() == [said, "Nothing was deleted."]
    assert (unknown.code, unknown.out) == (1, "shop has no runs of an import none; nothing was deleted.\n")
    assert undone.out.splitlines() == [said, "Deleted 2 runs."]
    assert (twice.code, "nothing was deleted" in twice.out) == (1, True)
    async with own.connection() as connection:
        for table in ("runs", "reporting_runs"):
            left = await connection.fetch(f"SELECT id FROM {table}")
            assert [row[0] for row in left] == [reported[-1]["id"]], table
        queued = await connection.fetchval("SELECT count(*) FROM outbox WHERE run_id <> $1", reported[-1]["id"])
        sums = await connection.fetch("SELECT DISTINCT model, runs, cost_usd FROM rollups WHERE project_id = 'shop'")
        [entry] = await connection.fetch("SELECT target, before FROM audit_entries WHERE action = 'import.undone'")
    assert queued == 0
    assert {tuple(row) for row in sums} == {("new", 1, Decimal("0.25"))}
    assert entry["target"] == import_id
    assert [found async for _, found in verify_sums(own, system_clock()) if found] == []


async def test_a_file_and_an_import_to_undo_are_not_given_together(server: Server, usage_csv: Path) -> None:
    both = await runtally(server, "import", usage_csv, "--project", "shop", "--undo", "a")
    neither = await runtally(server, "import", "--project", "shop")

    assert (both.code, neither.code) == (2, 2)
    assert "Give a FILE, or --undo" in both.err
