"""The database that each table is in: control has people, keys and prices; a cell has the data of projects.

A small installation has one database that is both. No statement reads or writes tables of control and of a cell at once.
"""

from collections.abc import Mapping
from enum import StrEnum


class DatabaseRole(StrEnum):
    """The kind of database that a table is in."""

    CONTROL = "control"
    """The one database of people, keys and prices."""
    CELL = "cell"
    """Each database of projects."""
    EVERY = "every"
    """Both: a row is written in the transaction that it is about, wherever that is. Migrations of cells make the table."""
    REPORTING = "reporting"
    """The database of the reporting table."""


DATABASE_ROLES: Mapping[str, DatabaseRole] = {
    **dict.fromkeys(
        (
            "users",
            "identities",
            "memberships",
            "teams",
            "team_projects",
            "group_roles",
            "sessions",
            "secret_key_fingerprints",
            "invitations",
            "api_keys",
            "shared_links",
            "price_entries",
            "project_discounts",
            "currency_rates",
            "repricings",
            "erasures",
            "bills",
            "colours",
            "rate_limits",
            "cells",
            "project_places",
        ),
        DatabaseRole.CONTROL,
    ),
    **dict.fromkeys(
        (
            "projects",
            "runs",
            "experiments",
            "rollups",
            "rollup_totals",
            "sum_deltas",
            "latency_sketches",
            "latency_deltas",
            "tracked_keys",
            "dimension_sums",
            "dimension_latencies",
            "dimension_deltas",
            "name_rules",
            "saved_views",
            "notes",
            "budgets",
            "alert_rules",
            "alert_targets",
            "alerts",
            "alert_deliveries",
            "otlp_clients",
            "outbox",
            "outbox_arrivals",
            "archive_files",
            "cell_identity",
        ),
        DatabaseRole.CELL,
    ),
    **dict.fromkeys(("audit_entries", "installation"), DatabaseRole.EVERY),
    "reporting_runs": DatabaseRole.REPORTING,
}
"""The home of each table, by its name."""
