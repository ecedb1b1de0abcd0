"""A Postgres data folder with all tables and prices: made once for all processes of the tests, and copied by each."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sqlalchemy.engine import make_url

from runtally.data_dir import locked
from runtally.db.migrate import upgrade
from runtally.embedded.server import database_url
from runtally.pricing.catalogue import seed_if_empty
from runtally.settings import Settings
from tests.folders import open_folder
from tests.serving import SEEDED, TEMPLATE, Postgres

DATA = "postgres"


def copy_cluster(shared: Path, data_dir: Path) -> None:
    """Give DATA_DIR a cluster, as after a first start and a stop; the first test that asks for it makes it, below `shared`."""
    made = shared / "cluster"
    with locked(shared, "cluster.lock"):
        if not made.exists():
            with open_folder("runtally-made-") as folder, ThreadPoolExecutor(1) as thread:
                # A thread of its own: Playwright may have a loop running in this one.
                thread.submit(_make, folder).result()
                _copy(folder / DATA, made)
    _copy(made, data_dir / DATA)


def _make(folder: Path) -> None:
    with database_url(Settings(data_dir=folder, database_url=None)) as url:
        server, own = Postgres(url), str(make_url(url).database)
        upgrade(url)
        server.create(TEMPLATE, own)
        seed_if_empty(url)
        server.create(SEEDED, own)


def _copy(source: Path, target: Path) -> None:
    """With its owner, who is not root even where we are."""
    subprocess.run(["/bin/cp", "-a", source, target], check=True)  # noqa: S603  # Folders of ours.
