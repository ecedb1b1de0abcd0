"""A database with runs of three and a half months, and archives on a folder and in a bucket."""

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from runtally.db.database import Database
from runtally.ingest.queries import insert_runs
from tests.archives import BUCKET, NOW, Bucket, runs_of
from tests.serving import Postgres


@pytest.fixture(scope="session")
def bucket() -> Iterator[Bucket]:
    server = Bucket()
    yield server
    server.stop()


@pytest.fixture
def bucket_url(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place of the test's own in the bucket."""
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid.uuid4().hex}/of/all"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture(params=["folder", "bucket"])
def archive_url(request: pytest.FixtureRequest) -> str:
    """Each kind of store in turn."""
    return str(request.getfixturevalue("folder" if request.param == "folder" else "bucket_url"))


@pytest.fixture
async def own(postgres: Postgres, empty_database_url: str) -> AsyncIterator[Database]:
    """Two projects with the same runs."""
    postgres.stop_clock(empty_database_url, NOW)
    async with Database(empty_database_url) as database:
        async with database.connection() as connection:
            await insert_runs(connection, runs_of("one", "two"), queued=False)
        yield database
