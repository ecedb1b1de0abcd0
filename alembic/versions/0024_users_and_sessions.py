"""Who a run was for, how its answer came, and which key sent it.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0024"
down_revision: str | None = "0023"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

COLUMNS: dict[str, tuple[sa.types.TypeEngine[Any], str]] = {
    "finish_reason": (sa.Text(), "Why the model stopped, as sent."),
    "time_to_first_token_ms": (sa.BigInteger(), "Milliseconds until the first token of a streamed answer."),
    "session_id": (sa.Text(), "Session the run belongs to."),
    "user_id": (sa.Text(), "User the call was made for."),
    "tags": (postgresql.ARRAY(sa.Text()), "Tags, each of them once."),
    "key_id": (
        sa.Uuid(),
        "Key that sent the run, the id of an entry of api_keys; all zeros: the shared ingest key.",
    ),
}


def upgrade() -> None:
    # Without a rewrite: they are empty.
    for name, (kind, comment) in COLUMNS.items():
        op.add_column("runs", sa.Column(name, kind, nullable=True, comment=comment))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("runs", name)
