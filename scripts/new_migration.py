"""Writes the migrations from the newest ones to the models, to be read and edited: new_migration.py "what it does".

One for each history whose tables differ; where none does, an empty one for cells.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from alembic import command

from runtally.db.migrate import config, models_differ, upgrade
from runtally.db.schema import CELL, HISTORIES, newest
from runtally.embedded.server import database_url
from runtally.settings import Settings


def write(message: str) -> None:
    # Postgres does not run as root, so its user must be able to reach the folder.
    folder = Path(tempfile.mkdtemp(prefix="runtally-migrations-"))
    folder.chmod(0o755)
    try:
        with database_url(Settings(data_dir=folder, database_url=None)) as url:
            upgrade(url)
            # What autogenerate does not see, such as data, wants a migration too: an empty one.
            differing = [history for history in HISTORIES if models_differ(url, history) is not None]
            for history in differing or [CELL]:
                number = f"{int(newest(history)) + 1:04}"
                command.revision(config(url, history), message, autogenerate=bool(differing), rev_id=number)
    finally:
        shutil.rmtree(folder)


if len(sys.argv) != 2 or not sys.argv[1].strip():  # noqa: PLR2004  # The program and one argument.
    sys.exit('Say what it does: make migration m="Add a region to runs"')
write(sys.argv[1])
