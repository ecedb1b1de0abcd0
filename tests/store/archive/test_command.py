"""`runtally archive`, and what start, doctor and /metrics say of an archive."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from tests.archives import archive_at, change_byte, names_in, replace_folder, retain, runs_of
from tests.commands import run
from tests.serving import INGEST_KEY, client_of, running_server
from webapp.cli import main


class Installation:
    """A database and an archive, and the command line over both."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "DATABASE_URL": database_url,
            "ARCHIVE_URL": str(folder),
            "DATA_DIR": str(folder.parent),
            "INGEST_API_KEY": INGEST_KEY,
            "SECRET_KEY": "secret-key-of-the-tests",
        }

    def run(self, *arguments: str, **environment: str | None) -> Result:
        # The tests' own loop runs in this thread.
        return CliRunner(env=self.environment | environment).invoke(main, arguments)

    def changes(self) -> list[tuple[str, ...]]:
        """What the audit log has of the archive."""

        async def read() -> list[tuple[str, ...]]:
            async with Database(self.environment["DATABASE_URL"]) as database, database.connection() as connection:
                rows = await connection.fetch(
                    "SELECT action, project_id, target, before::text FROM audit_entries WHERE action LIKE 'archive.%' ORDER BY id"
                )
            return [tuple(row) for row in rows]

        return asyncio.run(read())

    @property
    def paths(self) -> list[str]:
        return [one["path"] for one in json.loads(self.run("archive", "list", "--json").output)]


@pytest.fixture
def installation(empty_database_url: str, tmp_path: Path) -> Installation:
    """One whose runs of two months are archived."""
    folder = tmp_path / "archive"

    async def fill() -> None:
        async with Database(empty_database_url) as database:
            async with database.connection() as connection:
                await insert_runs(connection, runs_of("support"), queued=False)
            await retain(database, archive_at(database, str(folder)))

    asyncio.run(fill())
    return Installation(empty_database_url, folder)


def test_files_are_listed_and_verified(installation: Installation) -> None:
    listed = installation.run("archive", "list").output.splitlines()

    assert re.fullmatch(
        r"runs/project=support/month=2026-03/[-0-9a-f]{36}\.parquet  2026-03-01 to 2026-03-31  93 runs  [\d.]+ USD  [\d,]+ bytes",
        listed[0],
    )
    assert re.fullmatch(r"2 files, 183 runs, [\d,]+ bytes\.", listed[-1])
    assert installation.run("archive", "list", "other").output == "0 files, 0 runs, 0 bytes.\n"
    verified = installation.run("archive", "verify")
    assert (verified.exit_code, verified.stdout) == (
        0,
        "2 files with 183 runs are as they were written; 0 are damaged.\n",
    )
    (first, *_) = json.loads(installation.run("archive", "list", "--json").output)
    assert (first["projectId"], first["runs"], len(first["sha256"])) == ("support", 93, 64)


def test_each_damaged_file_is_named_and_can_be_given_up(installation: Installation) -> None:
    march, april = installation.paths
    (installation.folder / march).unlink()
    change_byte(installation.folder / april)
    (installation.folder / "runs" / "stray.parquet").write_bytes(b"PAR1")

    found = installation.run("archive", "verify")
    assert found.exit_code == 1
    assert found.stdout.splitlines() == [
        f"{march} is missing: 93 runs of support, 2026-03-01 to 2026-03-31.",
        f"{april} is not as it was written: 90 runs of support, 2026-04-01 to 2026-04-30.",
        "runs/stray.parquet is not listed: it may be of a database before a restore, and counts twice for who reads the folder.",
        "0 files with 0 runs are as they were written; 2 are damaged.",
    ]
    assert installation.run("archive", "forget", march).output == f"Forgot {march} and its 93 runs.\n"
    assert installation.run("archive", "forget", april).output == f"Forgot {april} and its 90 runs.\n"
    assert "no such file" in installation.run("archive", "forget", april).output

    assert not (installation.folder / april).exists()
    assert installation.run("archive", "verify").exit_code == 0
    assert installation.changes() == [
        ("archive.file_forgotten", "support", march, '{"runs": 93}'),
        ("archive.file_forgotten", "support", april, '{"runs": 90}'),
    ]


def test_archiving_can_be_stopped_and_begins_again_with_its_setting(installation: Installation) -> None:
    assert "archive stop" in installation.run("retention", "drop", ARCHIVE_URL=None, RETENTION_DAYS="31").output
    assert installation.run("archive", "stop", ARCHIVE_URL=None).output == "Archiving is stopped.\n"
    assert "nothing to stop" in installation.run("archive", "stop").output
    assert installation.run("archive", "verify").exit_code == 0
    assert " 2 files with 183 runs" in installation.run("doctor").output
    assert "nothing to stop" in installation.run("archive", "stop").output

    async def begin() -> None:
        async with Database(installation.environment["DATABASE_URL"]) as database:
            await archive_at(database, str(installation.folder)).begin()

    asyncio.run(begin())
    assert installation.run("archive", "stop").output == "Archiving is stopped.\n"
    assert [action for action, *_ in installation.changes()] == ["archive.stopped", "archive.stopped"]


def test_without_the_setting_a_command_says_so_and_a_wrong_one_is_refused(installation: Installation) -> None:
    assert "Set ARCHIVE_URL" in installation.run("archive", "verify", ARCHIVE_URL=None).output
    for wrong in ("relative/folder", "s3:///prefix", "https://example.com/a", "s3://key:secret@bucket"):
        refused = installation.run("archive", "verify", ARCHIVE_URL=wrong).output
        assert refused.startswith("Error: Correct these settings in the environment: ARCHIVE_URL: Where runs go")
        assert wrong not in refused


def test_doctor_says_how_the_archive_is(installation: Installation) -> None:
    def line(**environment: str | None) -> str:
        lines = installation.run("doctor", **environment).output.splitlines()
        return next((one for one in lines if " archive " in one), "")

    assert re.match(r"ok +archive +2 files with 183 runs in [\d,]+ bytes, the last of 2026-04-30", line())
    assert re.match(r"fail +archive +Runs of this installation are archived", line(ARCHIVE_URL=None))
    (installation.folder / installation.paths[0]).unlink()
    assert re.match(r"fail +archive +The archive is damaged: runs/project=support/month=2026-03/", line())
    (installation.folder / "runtally-archive.json").unlink()
    assert re.match(r"fail +archive +ARCHIVE_URL has no archive", line())


def test_a_start_refuses_the_archive_of_another_installation(installation: Installation, tmp_path: Path) -> None:
    marker = tmp_path / "other" / "runtally-archive.json"
    marker.parent.mkdir()
    marker.write_text('{"format": 1, "installation": "01a209d1-e894-73df-a005-08ee128e30cf"}')

    ended = run("serve", "--port", "0", environment=installation.environment | {"ARCHIVE_URL": str(marker.parent)})

    assert ended.code == 1
    assert "the archive of another installation (01a209d1-e894-73df-a005-08ee128e30cf)" in ended.err
    assert [path.name for path in marker.parent.iterdir()] == [marker.name]


async def test_a_start_without_the_disk_of_the_archive_serves_and_warns(
    installation: Installation, tmp_path: Path
) -> None:
    replace_folder(installation.folder, by="empty")
    log = tmp_path / "log"

    with running_server(
        installation.environment["DATABASE_URL"], log=log, ARCHIVE_URL=str(installation.folder)
    ) as server:
        async with client_of(server.url) as client:
            assert (await client.get("/api/health")).status_code == 200

    said = await asyncio.to_thread(log.read_text)
    assert "Warning: ARCHIVE_URL has no archive (runtally-archive.json is missing), though 2 files are listed" in said
    assert names_in(installation.folder) == []


async def test_a_start_with_a_missing_file_names_it_and_metrics_count_what_is_there(
    installation: Installation, tmp_path: Path
) -> None:
    (path, *_) = await asyncio.to_thread(lambda: installation.paths)
    await asyncio.to_thread((installation.folder / path).unlink)
    log = tmp_path / "log"

    with running_server(
        installation.environment["DATABASE_URL"], log=log, ARCHIVE_URL=str(installation.folder), METRICS_TOKEN="token"
    ) as server:
        async with client_of(server.url, {"Authorization": "Bearer token"}) as client:
            metrics = (await client.get("/metrics")).text

    assert "runtally_archive_files 2.0" in metrics
    assert "runtally_archive_stored_runs 183.0" in metrics
    assert "runtally_archive_left_over_files 0.0" in metrics
    said = await asyncio.to_thread(log.read_text)
    assert f"Warning: The archive is damaged: {path} is missing (93 runs of support, 2026-03-01 to 2026-03-31)" in said
    assert "Runs are not dropped meanwhile." in said
