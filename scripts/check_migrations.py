"""Check that the migrations make exactly the tables of the models; exits with 1 and the difference if not."""

import shutil
import sys
import tempfile
from pathlib import Path

from runtally.db.migrate import models_differ, upgrade
from runtally.embedded.server import database_url
from runtally.settings import Settings


def difference() -> str | None:
    # Postgres does not run as root, so its user must be able to reach the folder.
    folder = Path(tempfile.mkdtemp(prefix="runtally-migrations-"))
    folder.chmod(0o755)
    try:
        with database_url(Settings(data_dir=folder, database_url=None)) as url:
            upgrade(url)
            return models_differ(url)
    finally:
        shutil.rmtree(folder)


found = difference()
print(found or "migrations: ok")
sys.exit(1 if found else 0)
