"""A disk that is full costs no run that was acknowledged, and once there is room again everything goes on."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.factories import make_run
from tests.ops.processes import RUNTALLY, run, server_pid, until
from tests.ops.test_serve import serving

# A new database takes about half of it.
SIZE = "200m"
BATCH = 200


@pytest.fixture
def small_disk(data_dir: Path) -> Iterator[Path]:
    """A data folder on a disk of its own; where that may not be made the test is skipped."""
    mounted = subprocess.run(  # noqa: S603  # Arguments of ours.
        ["/bin/mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=755", "tmpfs", data_dir],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("only root may make a small disk")
    yield data_dir
    until(lambda: server_pid(data_dir) is None)
    subprocess.run(["/bin/umount", "--lazy", data_dir], check=True)  # noqa: S603


def fill(filler: Path) -> None:
    """To the last byte."""
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * os.sysconf("SC_PAGE_SIZE")):
            pass


def batch(number: int) -> dict[str, Any]:
    note = {"note": "x" * 1_000}
    return {"projectId": "full", "runs": [make_run(runId=f"{number}-{i}", metadata=note) for i in range(BATCH)]}


def test_a_full_disk_loses_nothing_and_is_no_end(small_disk: Path) -> None:
    filler = small_disk / "filler"
    with (
        serving(small_disk, "--workers", "2", INGEST_API_KEY="k") as (_process, url),
        httpx.Client(base_url=url, headers={"x-api-key": "k"}, timeout=60) as client,
    ):
        fill(filler)
        acknowledged = 0
        while (answer := client.post("/api/ingest", json=batch(acknowledged))).is_success:
            acknowledged += 1
            fill(filler)
        refused = client.post("/api/ingest", json=batch(acknowledged))
        filler.unlink()
        until(lambda: client.get("/api/health").is_success)
        duplicates = [
            client.post("/api/ingest", json=batch(number)).json()["duplicates"] for number in range(acknowledged)
        ]
        until(lambda: client.post("/api/ingest", json=batch(acknowledged)).is_success)
        verified = run([RUNTALLY, "rollups", "verify"], small_disk)

    assert {answer.status_code, refused.status_code} == {503}
    assert duplicates == [BATCH] * acknowledged
    assert verified.returncode == 0, verified.stdout
