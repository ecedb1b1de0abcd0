"""PgBouncer in front of the tests' Postgres."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from tests.serving import START_SECONDS, free_port

CONFIGURATION = """
[databases]
{database} = host={host} port=5432 user={user} dbname={database}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 200
"""


@contextmanager
def running_pgbouncer(database_url: str, *, connections: int) -> Iterator[str]:
    """The database behind a pooler that hands out so few connections, for a transaction each: its URL.

    The test is skipped on a machine without the program.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer on this machine")
    url, port = make_url(database_url), free_port()
    # Neither program runs as root, and both must be able to enter the folder.
    with tempfile.TemporaryDirectory(prefix="runtally-pgbouncer-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        file = folder / "pgbouncer.ini"
        file.write_text(
            CONFIGURATION.format(
                database=url.database, host=url.query["host"], user=url.username, port=port, connections=connections
            )
        )
        # The user that runs the server: no other may enter the folder of its socket.
        user = ["-u", Path(str(url.query["host"])).owner()] if os.geteuid() == 0 else []
        with (folder / "log").open("w") as log:
            process = subprocess.Popen([program, "-q", *user, str(file)], stderr=log)  # noqa: S603  # The program found.
        try:
            _wait_until_it_listens(port)
            yield f"postgresql://{url.username}@127.0.0.1:{port}/{url.database}?pgbouncer=true"
        finally:
            process.terminate()
            process.wait(START_SECONDS)


def _wait_until_it_listens(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
    raise TimeoutError(port)
