"""The service and its database, as the other tests have them."""

from tests.conftest import (
    catalogue_read_once,
    database,
    database_url,
    dev_server,
    postgres,
    project_id,
    run_folder,
    server,
)

__all__ = [
    "catalogue_read_once",
    "database",
    "database_url",
    "dev_server",
    "postgres",
    "project_id",
    "run_folder",
    "server",
]
