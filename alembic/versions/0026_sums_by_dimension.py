"""Sums of runs by the keys that their project tracks.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0026"
down_revision: str | None = "0025"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


ARRAYS = (
    "key_ids",
    "dimension_values",
    "hours",
    "providers",
    "models",
    "latencies",
    "runs",
    "errors",
    "timeouts",
    "unpriced",
    "cost_usd",
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
)


def upgrade() -> None:
    op.create_table(
        "dimension_deltas",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the runs."),
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Number of the row."),
        sa.Column(
            "queued_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Since when it waits (UTC).",
        ),
        sa.Column("size", sa.Integer(), nullable=False, comment="Runs, those taken away included."),
        sa.Column("key_ids", postgresql.ARRAY(sa.BigInteger()), nullable=False, comment="Numbers of the tracked keys."),
        sa.Column(
            "dimension_values",
            postgresql.ARRAY(sa.Text()),
            nullable=False,
            comment="For each run its values of these keys.",
        ),
        sa.Column(
            "hours", postgresql.ARRAY(sa.Integer()), nullable=False, comment="For each run its hour since 1970 (UTC)."
        ),
        sa.Column("providers", postgresql.ARRAY(sa.Text()), nullable=False, comment="For each run its provider."),
        sa.Column("models", postgresql.ARRAY(sa.Text()), nullable=False, comment="For each run its model."),
        sa.Column(
            "latencies",
            postgresql.ARRAY(sa.Integer()),
            nullable=False,
            comment="For each run its latency as in a sketch.",
        ),
        sa.Column("runs", postgresql.ARRAY(sa.BigInteger()), nullable=False, comment="Runs."),
        sa.Column("errors", postgresql.ARRAY(sa.BigInteger()), nullable=False, comment="Runs that ended in an error."),
        sa.Column(
            "timeouts", postgresql.ARRAY(sa.BigInteger()), nullable=False, comment="Runs that ended in a timeout."
        ),
        sa.Column(
            "unpriced", postgresql.ARRAY(sa.BigInteger()), nullable=False, comment="Runs whose cost is not known."
        ),
        sa.Column("cost_usd", postgresql.ARRAY(sa.Numeric()), nullable=False, comment="Cost in US dollars."),
        sa.Column(
            "input_tokens",
            postgresql.ARRAY(sa.Numeric()),
            nullable=False,
            comment="Input tokens, cached ones included.",
        ),
        sa.Column(
            "output_tokens",
            postgresql.ARRAY(sa.Numeric()),
            nullable=False,
            comment="Output tokens, reasoning included.",
        ),
        sa.Column(
            "cached_input_tokens",
            postgresql.ARRAY(sa.Numeric()),
            nullable=False,
            comment="Input tokens read from a cache.",
        ),
        sa.Column(
            "cache_write_tokens",
            postgresql.ARRAY(sa.Numeric()),
            nullable=False,
            comment="Input tokens written to a cache.",
        ),
        sa.Column(
            "reasoning_tokens",
            postgresql.ARRAY(sa.Numeric()),
            nullable=False,
            comment="Output tokens spent on reasoning.",
        ),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("pk_dimension_deltas")),
    )
    op.create_table(
        "dimension_latencies",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the runs."),
        sa.Column("key_id", sa.BigInteger(), autoincrement=False, nullable=False, comment="Number of the tracked key."),
        sa.Column("day", sa.Date(), nullable=False, comment="Day of the runs (UTC)."),
        sa.Column(
            "dimension_values",
            postgresql.ARRAY(sa.Text()),
            nullable=False,
            comment="Value of each count; empty: all other values.",
        ),
        sa.Column(
            "latencies",
            postgresql.ARRAY(sa.Integer()),
            nullable=False,
            comment="Latency of each count, as in a binned sketch.",
        ),
        sa.Column(
            "counts", postgresql.ARRAY(sa.BigInteger()), nullable=False, comment="Runs of the value with this latency."
        ),
        sa.PrimaryKeyConstraint("project_id", "key_id", "day", name=op.f("pk_dimension_latencies")),
    )
    op.create_table(
        "dimension_sums",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the runs."),
        sa.Column("key_id", sa.BigInteger(), autoincrement=False, nullable=False, comment="Number of the tracked key."),
        sa.Column(
            "detail", sa.Text(), nullable=False, comment="What its sums tell apart beside values: day, model or hour."
        ),
        sa.Column("day", sa.Date(), nullable=False, comment="Day of the runs (UTC)."),
        sa.Column(
            "hours",
            postgresql.ARRAY(sa.SmallInteger()),
            nullable=False,
            comment="Hour of each sum; 0 where it is of a day.",
        ),
        sa.Column(
            "dimension_values",
            postgresql.ARRAY(sa.Text()),
            nullable=False,
            comment="Value of each sum; empty: all other values.",
        ),
        sa.Column(
            "providers",
            postgresql.ARRAY(sa.Text()),
            nullable=False,
            comment="Provider of each sum; blank where it is of all models.",
        ),
        sa.Column(
            "models",
            postgresql.ARRAY(sa.Text()),
            nullable=False,
            comment="Model of each sum; blank where it is of all models.",
        ),
        sa.Column("runs", postgresql.ARRAY(sa.BigInteger()), nullable=False, comment="Runs."),
        sa.Column("errors", postgresql.ARRAY(sa.BigInteger()), nullable=False, comment="Runs that ended in an error."),
        sa.Column(
            "timeouts", postgresql.ARRAY(sa.BigInteger()), nullable=False, comment="Runs that ended in a timeout."
        ),
        sa.Column(
            "unpriced", postgresql.ARRAY(sa.BigInteger()), nullable=False, comment="Runs whose cost is not known."
        ),
        sa.Column("cost_usd", postgresql.ARRAY(sa.Numeric()), nullable=False, comment="Cost in US dollars."),
        sa.Column(
            "input_tokens",
            postgresql.ARRAY(sa.Numeric()),
            nullable=False,
            comment="Input tokens, cached ones included.",
        ),
        sa.Column(
            "output_tokens",
            postgresql.ARRAY(sa.Numeric()),
            nullable=False,
            comment="Output tokens, reasoning included.",
        ),
        sa.Column(
            "cached_input_tokens",
            postgresql.ARRAY(sa.Numeric()),
            nullable=False,
            comment="Input tokens read from a cache.",
        ),
        sa.Column(
            "cache_write_tokens",
            postgresql.ARRAY(sa.Numeric()),
            nullable=False,
            comment="Input tokens written to a cache.",
        ),
        sa.Column(
            "reasoning_tokens",
            postgresql.ARRAY(sa.Numeric()),
            nullable=False,
            comment="Output tokens spent on reasoning.",
        ),
        sa.PrimaryKeyConstraint("project_id", "key_id", "detail", "day", name=op.f("pk_dimension_sums")),
    )
    op.create_table(
        "tracked_keys",
        sa.Column(
            "project_id",
            sa.Text(),
            nullable=False,
            comment="Project that tracks it; empty: each project without an entry of its own.",
        ),
        sa.Column(
            "key",
            sa.Text(),
            nullable=False,
            comment="Name of the dimension: user, session, tags, or a key of metadata.",
        ),
        sa.Column(
            "id",
            sa.BigInteger(),
            sa.Identity(always=False),
            nullable=False,
            comment="Number of the key in the sums; another one when it is tracked anew.",
        ),
        sa.Column(
            "names",
            postgresql.ARRAY(sa.Text()),
            nullable=False,
            comment="Keys of metadata whose values count, the first that a run has; none: a column of runs.",
        ),
        sa.Column("state", sa.Text(), nullable=False, comment="tracked, filling, dropping or untracked."),
        sa.Column(
            "changed_at", sa.DateTime(timezone=True), nullable=False, comment="When it came to this state (UTC)."
        ),
        sa.Column("filled_until", sa.Date(), nullable=True, comment="Filling goes on with this day; empty: not begun."),
        sa.CheckConstraint(
            "state IN ('tracked', 'filling', 'dropping', 'untracked')", name=op.f("ck_tracked_keys_state")
        ),
        sa.PrimaryKeyConstraint("project_id", "key", name=op.f("pk_tracked_keys")),
    )
    # Read once, and soon: to pack them, or to put what fits into a page aside, took a third of what storing 100 runs took.
    op.execute("ALTER TABLE dimension_deltas SET (toast_tuple_target = 8160)")
    for name in ARRAYS:
        op.execute(f"ALTER TABLE dimension_deltas ALTER COLUMN {name} SET STORAGE EXTERNAL")
    # What each project tracks by default; the first three are columns of a run.
    op.execute(
        """
        INSERT INTO tracked_keys (project_id, key, names, state, changed_at)
             VALUES ('', 'user', '{}', 'tracked', now()),
                    ('', 'session', '{}', 'tracked', now()),
                    ('', 'tags', '{}', 'tracked', now()),
                    ('', 'feature', '{feature}', 'tracked', now()),
                    ('', 'environment', '{environment,env}', 'tracked', now()),
                    ('', 'release', '{release}', 'tracked', now()),
                    ('', 'team', '{team}', 'tracked', now()),
                    ('', 'repo', '{repo}', 'tracked', now()),
                    ('', 'agent', '{agent}', 'tracked', now())
        """
    )


def downgrade() -> None:
    op.drop_table("tracked_keys")
    op.drop_table("dimension_sums")
    op.drop_table("dimension_latencies")
    op.drop_table("dimension_deltas")
