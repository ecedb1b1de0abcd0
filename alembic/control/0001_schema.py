"""Create every table of Runtally but the reporting table, which has migrations of its own.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

DELTA_ARRAYS = (
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
# The first three are columns of a run, the others keys of its metadata.
TRACKED_BY_DEFAULT = """
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


def upgrade() -> None:
    _create_runs()
    _create_usage()
    _create_tracking()
    _create_pricing()
    _create_access()
    _create_alerts()
    _create_intake()


def downgrade() -> None:
    raise NotImplementedError("Drop the database by hand, if that is what you want.")


def _vacuum_often(table: str) -> None:
    """Clean a table whose rows are inserted and deleted within seconds."""
    op.execute(f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)")


def _create_runs() -> None:
    """Projects, their runs, and their experiments."""
    op.create_table(
        "projects",
        sa.Column("id", sa.Text(), nullable=False, comment="The projectId of the API."),
        sa.Column("name", sa.Text(), nullable=False, comment="Name shown in pages."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was first seen (UTC)."),
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True, comment="Since when it is hidden (UTC)."),
        sa.Column(
            "retention_days",
            sa.Integer(),
            nullable=True,
            comment="Days that its live runs are kept; 0: for ever; empty: as RETENTION_DAYS says.",
        ),
        sa.Column(
            "dropped_before",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Start of a day (UTC): older live runs were dropped, and their sums are kept.",
        ),
        sa.Column(
            "embed_token",
            sa.Text(),
            nullable=True,
            comment="What the URL of its charts must carry to be seen without signing in; empty: there is none.",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
    )
    op.create_table(
        "runs",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project the run belongs to."),
        sa.Column(
            "id",
            sa.Text(),
            nullable=False,
            comment="Identity within the project: the runId that was sent, else a UUIDv7.",
        ),
        sa.Column(
            "occurred_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When the call was made (UTC); decides bucket and price.",
        ),
        sa.Column("provider", sa.Text(), nullable=False, comment="Provider, as sent."),
        sa.Column("model", sa.Text(), nullable=False, comment="Model, as sent."),
        sa.Column("status", sa.Text(), nullable=False, comment="success, error or timeout."),
        sa.Column("error_code", sa.Text(), nullable=True, comment="Error code, as sent."),
        sa.Column("finish_reason", sa.Text(), nullable=True, comment="Why the model stopped, as sent."),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True, comment="Input tokens, cached ones included."),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True, comment="Output tokens, reasoning included."),
        sa.Column("cached_input_tokens", sa.BigInteger(), nullable=True, comment="Input tokens read from a cache."),
        sa.Column("cache_write_tokens", sa.BigInteger(), nullable=True, comment="Input tokens written to a cache."),
        sa.Column("reasoning_tokens", sa.BigInteger(), nullable=True, comment="Output tokens spent on reasoning."),
        sa.Column("audio_input_tokens", sa.BigInteger(), nullable=True, comment="Input tokens of audio."),
        sa.Column("audio_output_tokens", sa.BigInteger(), nullable=True, comment="Output tokens of audio."),
        sa.Column("latency_ms", sa.BigInteger(), nullable=True, comment="Latency in milliseconds."),
        sa.Column(
            "time_to_first_token_ms",
            sa.BigInteger(),
            nullable=True,
            comment="Milliseconds until the first token of a streamed answer.",
        ),
        sa.Column(
            "cost_usd",
            sa.Numeric(precision=38, scale=12),
            nullable=True,
            comment="Cost in US dollars; empty while no price is known.",
        ),
        sa.Column(
            "cost_source", sa.Text(), nullable=True, comment="provider, catalog or estimated; empty without a cost."
        ),
        sa.Column("cost_estimated", sa.Boolean(), nullable=True, comment="Whether the cost is an estimate."),
        sa.Column(
            "reported_cost_usd",
            sa.Numeric(precision=38, scale=12),
            nullable=True,
            comment="Cost that the client reported.",
        ),
        sa.Column("price_entry_id", sa.BigInteger(), nullable=True, comment="Price entry that priced the run."),
        sa.Column("experiment_id", sa.Text(), nullable=True, comment="Experiment the run belongs to."),
        sa.Column("trace_id", sa.Text(), nullable=True, comment="Trace the run belongs to."),
        sa.Column("session_id", sa.Text(), nullable=True, comment="Session the run belongs to."),
        sa.Column("user_id", sa.Text(), nullable=True, comment="User the call was made for."),
        sa.Column("tags", postgresql.ARRAY(sa.Text()), nullable=True, comment="Tags, each of them once."),
        sa.Column(
            "key_id",
            sa.Uuid(),
            nullable=True,
            comment="Key that sent the run, the id of an entry of api_keys; all zeros: the shared ingest key.",
        ),
        sa.Column("client_id", sa.Text(), nullable=True, comment="The client's own id; no key."),
        sa.Column("idempotency_key", sa.Text(), nullable=True, comment="Idempotency key, as sent; not enforced."),
        sa.Column("prompt_hash", sa.Text(), nullable=True, comment="Hash of the prompt, made by the client."),
        sa.Column("prompt_preview", sa.Text(), nullable=True, comment="Start of the prompt, at most 160 characters."),
        sa.Column(
            "metadata",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="Free-form metadata without content.",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When the run was stored (UTC)."),
        sa.Column("version", sa.Integer(), nullable=False, comment="Grows with each change of the run."),
        sa.CheckConstraint("cost_source IN ('provider', 'catalog', 'estimated')", name=op.f("ck_runs_cost_source")),
        sa.CheckConstraint("status IN ('success', 'error', 'timeout')", name=op.f("ck_runs_status")),
        sa.CheckConstraint("cost_usd >= 0", name=op.f("ck_runs_cost_usd")),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("pk_runs")),
    )
    op.create_index(
        "ix_runs_experiment",
        "runs",
        ["project_id", "experiment_id", "occurred_at"],
        unique=False,
        postgresql_where=sa.text("experiment_id IS NOT NULL"),
    )
    op.create_index(
        "ix_runs_failed",
        "runs",
        ["project_id", "occurred_at"],
        unique=False,
        postgresql_where=sa.text("status <> 'success'"),
    )
    op.create_index("ix_runs_project_id_model", "runs", ["project_id", "model"], unique=False)
    op.create_index("ix_runs_project_id_occurred_at", "runs", ["project_id", "occurred_at"], unique=False)
    op.create_index(
        "ix_runs_trace",
        "runs",
        ["project_id", "trace_id"],
        unique=False,
        postgresql_where=sa.text("trace_id IS NOT NULL"),
    )
    op.create_index(
        "ix_runs_unpriced", "runs", ["project_id", "id"], unique=False, postgresql_where=sa.text("cost_usd IS NULL")
    )
    op.create_table(
        "experiments",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project the experiment belongs to."),
        sa.Column("id", sa.Text(), nullable=False, comment="The experimentId of its runs."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When a run first named it (UTC)."),
        sa.Column(
            "window_runs",
            sa.Integer(),
            server_default=sa.text("100"),
            nullable=True,
            comment="Judge at most the last so many runs; empty: all of window_hours.",
        ),
        sa.Column("window_hours", sa.Integer(), nullable=True, comment="Judge the runs of the last so many hours."),
        sa.Column(
            "max_error_rate",
            sa.Numeric(precision=9, scale=8),
            server_default=sa.text("0.05"),
            nullable=True,
            comment="Largest share of failed runs, 0 to 1.",
        ),
        sa.Column("max_p95_latency_ms", sa.BigInteger(), nullable=True, comment="Largest p95 latency in milliseconds."),
        sa.Column(
            "max_cost_per_run_usd",
            sa.Numeric(precision=38, scale=12),
            nullable=True,
            comment="Largest mean cost of a run in US dollars.",
        ),
        sa.Column(
            "max_total_cost_usd",
            sa.Numeric(precision=38, scale=12),
            nullable=True,
            comment="Largest cost of all runs judged in US dollars.",
        ),
        sa.Column(
            "min_runs",
            sa.Integer(),
            server_default=sa.text("1"),
            nullable=False,
            comment="Fewer runs than this have no verdict.",
        ),
        sa.Column(
            "badge_token",
            sa.Text(),
            nullable=True,
            comment="What the badge's URL must carry; empty: the badge is public.",
        ),
        sa.CheckConstraint("max_cost_per_run_usd >= 0", name=op.f("ck_experiments_max_cost_per_run_usd")),
        sa.CheckConstraint("max_error_rate BETWEEN 0 AND 1", name=op.f("ck_experiments_max_error_rate")),
        sa.CheckConstraint("max_p95_latency_ms >= 0", name=op.f("ck_experiments_max_p95_latency_ms")),
        sa.CheckConstraint("max_total_cost_usd >= 0", name=op.f("ck_experiments_max_total_cost_usd")),
        sa.CheckConstraint("min_runs > 0", name=op.f("ck_experiments_min_runs")),
        sa.CheckConstraint("window_hours > 0", name=op.f("ck_experiments_window_hours")),
        sa.CheckConstraint("window_runs > 0", name=op.f("ck_experiments_window_runs")),
        sa.CheckConstraint("window_runs IS NOT NULL OR window_hours IS NOT NULL", name=op.f("ck_experiments_window")),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("pk_experiments")),
    )
    op.create_index("ix_experiments_id", "experiments", ["id"], unique=False)
    # A fifth of a table must be dead before it is cleaned, by default: of many millions of runs that is too late for their place to
    # be taken by the next ones.
    op.execute("ALTER TABLE runs SET (autovacuum_vacuum_scale_factor = 0.02)")


def _create_usage() -> None:
    """What runs add up to, by bucket of time."""
    op.create_table(
        "rollups",
        sa.Column(
            "project_id", sa.Text(), nullable=False, comment="Project of the runs; empty for all projects together."
        ),
        sa.Column(
            "grain", sa.SmallInteger(), autoincrement=False, nullable=False, comment="Length of the bucket in minutes."
        ),
        sa.Column("bucket", sa.DateTime(timezone=True), nullable=False, comment="Start of the bucket (UTC)."),
        sa.Column("provider", sa.Text(), nullable=False, comment="Provider of the runs."),
        sa.Column("model", sa.Text(), nullable=False, comment="Model of the runs."),
        sa.Column("runs", sa.BigInteger(), nullable=False, comment="Runs."),
        sa.Column("errors", sa.BigInteger(), nullable=False, comment="Runs that ended in an error."),
        sa.Column("timeouts", sa.BigInteger(), nullable=False, comment="Runs that ended in a timeout."),
        sa.Column("unpriced", sa.BigInteger(), nullable=False, comment="Runs whose cost is not known."),
        sa.Column("estimated", sa.BigInteger(), nullable=False, comment="Runs whose cost is an estimate."),
        sa.Column("cost_usd", sa.Numeric(), nullable=False, comment="Cost in US dollars."),
        sa.Column("input_tokens", sa.Numeric(), nullable=False, comment="Input tokens, cached ones included."),
        sa.Column("output_tokens", sa.Numeric(), nullable=False, comment="Output tokens, reasoning included."),
        sa.Column("cached_input_tokens", sa.Numeric(), nullable=False, comment="Input tokens read from a cache."),
        sa.Column("cache_write_tokens", sa.Numeric(), nullable=False, comment="Input tokens written to a cache."),
        sa.Column("reasoning_tokens", sa.Numeric(), nullable=False, comment="Output tokens spent on reasoning."),
        sa.Column(
            "audio_input_tokens",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Input tokens of audio.",
        ),
        sa.Column(
            "audio_output_tokens",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Output tokens of audio.",
        ),
        sa.Column(
            "error_cost_usd",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Cost of runs that ended in an error.",
        ),
        sa.Column(
            "timeout_cost_usd",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Cost of runs that ended in a timeout.",
        ),
        sa.PrimaryKeyConstraint("project_id", "grain", "bucket", "provider", "model", name=op.f("pk_rollups")),
    )
    op.create_table(
        "rollup_totals",
        sa.Column(
            "project_id", sa.Text(), nullable=False, comment="Project of the runs; empty for all projects together."
        ),
        sa.Column(
            "grain", sa.SmallInteger(), autoincrement=False, nullable=False, comment="Length of the bucket in minutes."
        ),
        sa.Column("bucket", sa.DateTime(timezone=True), nullable=False, comment="Start of the bucket (UTC)."),
        sa.Column("runs", sa.BigInteger(), nullable=False, comment="Runs."),
        sa.Column("errors", sa.BigInteger(), nullable=False, comment="Runs that ended in an error."),
        sa.Column("timeouts", sa.BigInteger(), nullable=False, comment="Runs that ended in a timeout."),
        sa.Column("unpriced", sa.BigInteger(), nullable=False, comment="Runs whose cost is not known."),
        sa.Column("estimated", sa.BigInteger(), nullable=False, comment="Runs whose cost is an estimate."),
        sa.Column("cost_usd", sa.Numeric(), nullable=False, comment="Cost in US dollars."),
        sa.Column("input_tokens", sa.Numeric(), nullable=False, comment="Input tokens, cached ones included."),
        sa.Column("output_tokens", sa.Numeric(), nullable=False, comment="Output tokens, reasoning included."),
        sa.Column(
            "error_cost_usd",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Cost of runs that ended in an error.",
        ),
        sa.Column(
            "timeout_cost_usd",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Cost of runs that ended in a timeout.",
        ),
        sa.PrimaryKeyConstraint("project_id", "grain", "bucket", name=op.f("pk_rollup_totals")),
    )
    op.create_index(
        "ix_rollup_totals_days", "rollup_totals", ["bucket"], unique=False, postgresql_where=sa.text("grain = 1440")
    )
    op.create_table(
        "latency_sketches",
        sa.Column(
            "project_id", sa.Text(), nullable=False, comment="Project of the runs; empty for all projects together."
        ),
        sa.Column("grain", sa.SmallInteger(), nullable=False, comment="Length of the bucket in minutes."),
        sa.Column("bucket", sa.DateTime(timezone=True), nullable=False, comment="Start of the bucket (UTC)."),
        sa.Column(
            "latencies",
            postgresql.ARRAY(sa.Integer()),
            nullable=False,
            comment="Twice each latency in milliseconds, or twice the middle of its bin where there are many, ascending; from 1e9 on the number of a bin.",
        ),
        sa.Column(
            "counts", postgresql.ARRAY(sa.Integer()), nullable=False, comment="Runs with each of these latencies."
        ),
        sa.Column(
            "p50",
            sa.Integer(),
            nullable=True,
            comment="Of these latencies the median, by nearest rank; not known until runs are added.",
        ),
        sa.Column(
            "p95",
            sa.Integer(),
            nullable=True,
            comment="Of these latencies the 95th percentile; not known until runs are added.",
        ),
        sa.PrimaryKeyConstraint("project_id", "grain", "bucket", name=op.f("pk_latency_sketches")),
    )
    op.create_table(
        "latency_deltas",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the runs."),
        sa.Column("bucket", sa.DateTime(timezone=True), nullable=False, comment="Start of the bucket (UTC)."),
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Number of the row."),
        sa.Column(
            "latencies",
            postgresql.ARRAY(sa.Integer()),
            nullable=False,
            comment="As in a sketch, in no order; one may be there several times.",
        ),
        sa.Column(
            "counts",
            postgresql.ARRAY(sa.Integer()),
            nullable=False,
            comment="Runs with each of these latencies; below zero, runs that went.",
        ),
        sa.PrimaryKeyConstraint("project_id", "bucket", "id", name=op.f("pk_latency_deltas")),
    )
    # The buckets of the present are updated all the time: room on their pages keeps that from touching the indexes.
    for table in ("rollups", "rollup_totals", "latency_sketches"):
        op.execute(f"ALTER TABLE {table} SET (fillfactor = 70)")
    _vacuum_often("latency_deltas")


def _create_tracking() -> None:
    """What runs add up to by the keys that a project tracks."""
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
    op.create_table(
        "dimension_sums",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the runs."),
        sa.Column("key_id", sa.BigInteger(), autoincrement=False, nullable=False, comment="Number of the tracked key."),
        sa.Column(
            "detail",
            sa.Text(),
            nullable=False,
            comment="What its sums are kept by besides the value: day, model or hour.",
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
    # Its rows are read once, and soon: to compress them, or to move them to another table, took a third of what storing 100 runs took.
    op.execute("ALTER TABLE dimension_deltas SET (toast_tuple_target = 8160)")
    for column in DELTA_ARRAYS:
        op.execute(f"ALTER TABLE dimension_deltas ALTER COLUMN {column} SET STORAGE EXTERNAL")
    op.execute(TRACKED_BY_DEFAULT)


def _create_pricing() -> None:
    """What providers charge, and costs that are computed again."""
    # Postgres has a range of text in no extension that everybody who may create tables may install.
    op.execute('CREATE TYPE text_range AS RANGE (subtype = text, collation = "C")')
    op.create_table(
        "price_entries",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Number of the row."),
        sa.Column(
            "project_id", sa.Text(), nullable=True, comment="Project that has negotiated this price; empty: all."
        ),
        sa.Column("provider", sa.Text(), nullable=False, comment="Provider, in lower case."),
        sa.Column(
            "model", sa.Text(), nullable=False, comment="Model; an exact match, and the name shown for patterns."
        ),
        sa.Column("aliases", postgresql.ARRAY(sa.Text()), nullable=False, comment="Other names that match exactly."),
        sa.Column("match", sa.Text(), nullable=False, comment="exact, prefix or regex: how pattern is read."),
        sa.Column(
            "pattern",
            sa.Text(),
            nullable=True,
            comment="Prefix of the model name, or regular expression over all of it.",
        ),
        sa.Column(
            "above_input_tokens",
            sa.BigInteger(),
            nullable=False,
            comment="In force for runs with more input tokens than this.",
        ),
        sa.Column(
            "input_per_million",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="USD per million input tokens.",
        ),
        sa.Column(
            "output_per_million",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="USD per million output tokens.",
        ),
        sa.Column(
            "cache_read_per_million",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="USD per million input tokens read from a cache; empty: as input.",
        ),
        sa.Column(
            "cache_write_per_million",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="USD per million input tokens written to a cache; empty: as input.",
        ),
        sa.Column(
            "reasoning_per_million",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="USD per million reasoning tokens; empty: as output.",
        ),
        sa.Column(
            "audio_input_per_million",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="USD per million input tokens of audio; empty: as input.",
        ),
        sa.Column(
            "audio_output_per_million",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="USD per million output tokens of audio; empty: as output.",
        ),
        sa.Column(
            "per_thousand_requests",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="USD per thousand requests, in addition to the tokens; empty: none.",
        ),
        sa.Column(
            "currency",
            sa.Text(),
            server_default=sa.text("'USD'"),
            nullable=False,
            comment="Currency of the amounts: USD.",
        ),
        sa.Column(
            "effective_from",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="In force from (UTC); empty: ever since.",
        ),
        sa.Column(
            "effective_to",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="In force until, exclusive (UTC); empty: still.",
        ),
        sa.Column("estimated", sa.Boolean(), nullable=False, comment="Whether a cost computed from it is an estimate."),
        sa.Column("source", sa.Text(), nullable=False, comment="catalogue or admin."),
        sa.Column("catalogue_key", sa.Text(), nullable=True, comment="Place in the catalogue it came from."),
        sa.Column("note", sa.Text(), nullable=True, comment="Why the price is what it is."),
        sa.Column("author", sa.Text(), nullable=True, comment="Who made the entry; empty: the catalogue."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When the entry was made (UTC)."),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), nullable=False, comment="When the entry last changed (UTC)."
        ),
        sa.Column(
            "withdrawn_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Since when it prices nothing; it stays for the runs that it priced (UTC).",
        ),
        postgresql.ExcludeConstraint(
            (sa.text("text_range(coalesce(project_id, ''), coalesce(project_id, ''), '[]')"), "&&"),
            (sa.text("text_range(provider, provider, '[]')"), "&&"),
            (sa.text("text_range(match, match, '[]')"), "&&"),
            (sa.text("text_range(coalesce(pattern, lower(model)), coalesce(pattern, lower(model)), '[]')"), "&&"),
            (sa.text("int8range(above_input_tokens, above_input_tokens, '[]')"), "&&"),
            (sa.text("tstzrange(effective_from, effective_to)"), "&&"),
            where=sa.text("withdrawn_at IS NULL"),
            deferrable="True",
            initially="IMMEDIATE",
            using="gist",
            name="ex_price_entries_overlap",
        ),
        sa.CheckConstraint("(match = 'exact') = (pattern IS NULL)", name=op.f("ck_price_entries_pattern")),
        sa.CheckConstraint("currency = 'USD'", name=op.f("ck_price_entries_currency")),
        sa.CheckConstraint("match IN ('exact', 'prefix', 'regex')", name=op.f("ck_price_entries_match")),
        sa.CheckConstraint("source IN ('catalogue', 'admin')", name=op.f("ck_price_entries_source")),
        sa.CheckConstraint("above_input_tokens >= 0", name=op.f("ck_price_entries_above_input_tokens")),
        sa.CheckConstraint("effective_from < effective_to", name=op.f("ck_price_entries_period")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_price_entries")),
    )
    op.create_index("uq_price_entries_catalogue_key", "price_entries", ["catalogue_key"], unique=True)
    op.create_table(
        "project_discounts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Number of the row."),
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project that pays less."),
        sa.Column(
            "provider", sa.Text(), nullable=True, comment="Provider whose prices are discounted; empty: all others."
        ),
        sa.Column("percent", sa.Numeric(precision=5, scale=2), nullable=False, comment="Percent off the list price."),
        sa.Column(
            "effective_from",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="In force from (UTC); empty: ever since.",
        ),
        sa.Column(
            "effective_to",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="In force until, exclusive (UTC); empty: still.",
        ),
        sa.Column("note", sa.Text(), nullable=True, comment="Why it is given."),
        sa.Column("author", sa.Text(), nullable=False, comment="Who entered it."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was entered (UTC)."),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, comment="When it last changed (UTC)."),
        postgresql.ExcludeConstraint(
            (sa.text("text_range(project_id, project_id, '[]')"), "&&"),
            (sa.text("text_range(coalesce(provider, ''), coalesce(provider, ''), '[]')"), "&&"),
            (sa.text("tstzrange(effective_from, effective_to)"), "&&"),
            using="gist",
            name="ex_project_discounts_overlap",
        ),
        sa.CheckConstraint("effective_from < effective_to", name=op.f("ck_project_discounts_period")),
        sa.CheckConstraint("percent > 0 AND percent <= 100", name=op.f("ck_project_discounts_percent")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_project_discounts")),
    )
    op.create_table(
        "repricings",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Number of the row."),
        sa.Column(
            "state", sa.Text(), nullable=False, comment="comparing, compared, running, paused, done or cancelled."
        ),
        sa.Column("project_id", sa.Text(), nullable=True, comment="Only runs of this project; empty: of all."),
        sa.Column("provider", sa.Text(), nullable=True, comment="Only runs of this provider, as sent; empty: of all."),
        sa.Column("model", sa.Text(), nullable=True, comment="Only runs of this model, as sent; empty: of all."),
        sa.Column("since", sa.DateTime(timezone=True), nullable=True, comment="Only runs from then on (UTC)."),
        sa.Column("until", sa.DateTime(timezone=True), nullable=True, comment="Only runs before then (UTC)."),
        sa.Column("at_project", sa.Text(), nullable=True, comment="Project that it has come to."),
        sa.Column(
            "at_time",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Time of the last run that was looked at (UTC).",
        ),
        sa.Column("at_run", sa.Text(), nullable=True, comment="The last run that was looked at."),
        sa.Column("runs", sa.BigInteger(), nullable=False, comment="Runs in its scope when it began."),
        sa.Column("seen", sa.BigInteger(), nullable=False, comment="Runs that were looked at."),
        sa.Column("changed", sa.BigInteger(), nullable=False, comment="Runs whose cost was changed."),
        sa.Column(
            "found",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=False,
            comment="By project, provider and model: runs that change, with their cost before and after.",
        ),
        sa.Column("author", sa.Text(), nullable=False, comment="Who asked for it."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was asked for (UTC)."),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, comment="When it last went on (UTC)."),
        sa.CheckConstraint(
            "state IN ('comparing', 'compared', 'running', 'paused', 'done', 'cancelled')",
            name=op.f("ck_repricings_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_repricings")),
    )


def _create_access() -> None:
    """Keys, people, and what they did."""
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity; safe to show."),
        sa.Column("name", sa.Text(), nullable=True, comment="Name that people know it by; empty: its prefix."),
        sa.Column(
            "prefix", sa.Text(), nullable=False, comment="First characters of the key, by which people recognise it."
        ),
        sa.Column("key_hash", sa.LargeBinary(), nullable=False, comment="SHA-256 of the whole key."),
        sa.Column("project_id", sa.Text(), nullable=True, comment="Project it opens; empty: all."),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False, comment="What it may do."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was issued (UTC)."),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True, comment="From when it is refused (UTC)."),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True, comment="When it was revoked (UTC)."),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True, comment="Last use, to the minute (UTC)."),
        sa.Column("replaces_id", sa.Uuid(), nullable=True, comment="Key that this one replaced by rotation."),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_index("uq_api_keys_key_hash", "api_keys", ["key_hash"], unique=True)
    op.create_table(
        "users",
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity."),
        sa.Column("email", sa.Text(), nullable=False, comment="Address to sign in with, in lower case."),
        sa.Column("name", sa.Text(), nullable=False, comment="Name shown in pages."),
        sa.Column(
            "password_hash", sa.Text(), nullable=False, comment="Argon2id hash of the password, with its parameters."
        ),
        sa.Column(
            "is_admin", sa.Boolean(), nullable=False, comment="Whether everything is open to them, in every project."
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When they joined (UTC)."),
        sa.Column(
            "disabled_at", sa.DateTime(timezone=True), nullable=True, comment="Since when they may not sign in (UTC)."
        ),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=True, comment="Last use, to the minute (UTC)."),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
    )
    op.create_index("uq_users_email", "users", ["email"], unique=True)
    op.create_table(
        "identities",
        sa.Column("issuer", sa.Text(), nullable=False, comment="URL of the provider."),
        sa.Column("subject", sa.Text(), nullable=False, comment="Who they are there, for ever."),
        sa.Column("user_id", sa.Uuid(), nullable=False, comment="The user."),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), nullable=False, comment="When they first signed in with it (UTC)."
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_identities_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_identities")),
    )
    op.create_index("ix_identities_user_id", "identities", ["user_id"], unique=False)
    op.create_table(
        "invitations",
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity; safe to show."),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False, comment="SHA-256 of the token in the link."),
        sa.Column(
            "email", sa.Text(), nullable=True, comment="Address it is for; empty: the person who accepts it enters one."
        ),
        sa.Column("role", sa.Text(), nullable=True, comment="Role that it gives; empty: a new password for user_id."),
        sa.Column("project_id", sa.Text(), nullable=True, comment="Project that the role is for; empty: all."),
        sa.Column("user_id", sa.Uuid(), nullable=True, comment="User whose password it sets."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was made (UTC)."),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False, comment="From when it is refused (UTC)."),
        sa.CheckConstraint(
            "(role = 'admin') = (project_id IS NULL) OR role IS NULL", name=op.f("ck_invitations_project")
        ),
        sa.CheckConstraint("role IN ('admin', 'member', 'viewer')", name=op.f("ck_invitations_role")),
        sa.CheckConstraint("(role IS NULL) = (user_id IS NOT NULL)", name=op.f("ck_invitations_purpose")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_invitations_project_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_invitations_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invitations")),
    )
    op.create_index("uq_invitations_token_hash", "invitations", ["token_hash"], unique=True)
    op.create_table(
        "memberships",
        sa.Column("project_id", sa.Text(), nullable=False, comment="The project."),
        sa.Column("user_id", sa.Uuid(), nullable=False, comment="The user."),
        sa.Column("role", sa.Text(), nullable=False, comment="member or viewer."),
        sa.CheckConstraint("role IN ('member', 'viewer')", name=op.f("ck_memberships_role")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_memberships_project_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_memberships_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("project_id", "user_id", name=op.f("pk_memberships")),
    )
    op.create_index("ix_memberships_user_id", "memberships", ["user_id"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False, comment="SHA-256 of what the cookie holds."),
        sa.Column("user_id", sa.Uuid(), nullable=True, comment="User who is signed in."),
        sa.Column("key_id", sa.Uuid(), nullable=True, comment="Key that was signed in with."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When they signed in (UTC)."),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False, comment="Last use, to the minute (UTC)."),
        sa.Column(
            "expires_at", sa.DateTime(timezone=True), nullable=False, comment="When it ends, however busy it is (UTC)."
        ),
        sa.CheckConstraint("(user_id IS NULL) <> (key_id IS NULL)", name=op.f("ck_sessions_holder")),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name=op.f("fk_sessions_key_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_sessions_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_sessions")),
    )
    op.create_index("ix_sessions_key_id", "sessions", ["key_id"], unique=False)
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"], unique=False)
    op.create_table(
        "audit_entries",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Number of the row."),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False, comment="When (UTC)."
        ),
        sa.Column(
            "actor_kind", sa.Text(), nullable=False, comment="What kind of actor did it: user, key, developer, system."
        ),
        sa.Column("actor_id", sa.Text(), nullable=False, comment="Who: id of the user or key."),
        sa.Column(
            "actor_label", sa.Text(), nullable=False, comment="How they were called then: address, or start of the key."
        ),
        sa.Column("action", sa.Text(), nullable=False, comment="What was done, such as key.revoked."),
        sa.Column("project_id", sa.Text(), nullable=True, comment="Project it belongs to; empty: none."),
        sa.Column("target", sa.Text(), nullable=False, comment="To what: name, address, or start of a key."),
        sa.Column(
            "before",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="What changed, as it was.",
        ),
        sa.Column(
            "after",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="What changed, as it is since.",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_entries")),
    )
    op.create_index("ix_audit_entries_project_id_id", "audit_entries", ["project_id", "id"], unique=False)


def _create_alerts() -> None:
    """Budgets, and alerts on their way."""
    op.create_table(
        "budgets",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project whose cost it is for."),
        sa.Column(
            "amount_usd",
            sa.Numeric(precision=38, scale=12),
            nullable=False,
            comment="US dollars for a calendar month (UTC).",
        ),
        sa.Column(
            "alert_percents",
            postgresql.ARRAY(sa.SmallInteger()),
            nullable=False,
            comment="Shares in percent at which an alert is sent, ascending.",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was first set (UTC)."),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, comment="When it was last changed (UTC)."),
        sa.CheckConstraint("amount_usd > 0", name=op.f("ck_budgets_amount")),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_budgets")),
    )
    op.create_table(
        "alert_targets",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project whose alerts they are."),
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity; safe to show."),
        sa.Column("kind", sa.Text(), nullable=False, comment="Channel, such as slack or email."),
        sa.Column("address", sa.Text(), nullable=False, comment="URL or address."),
        sa.Column("secret", sa.Text(), nullable=True, comment="Key that signs generic webhooks, as whsec_ and base64."),
        sa.Column(
            "of_unusual_cost",
            sa.Boolean(),
            nullable=False,
            comment="Whether unusual cost is reported as well as the budget.",
        ),
        sa.Column(
            "weekly_report",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Whether it gets the weekly report.",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was added (UTC)."),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("pk_alert_targets")),
        sa.UniqueConstraint("project_id", "kind", "address", name=op.f("uq_alert_targets_project_id_kind_address")),
    )
    op.create_table(
        "alerts",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project it is about."),
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity, the same for all targets and all tries."),
        sa.Column("kind", sa.Text(), nullable=False, comment="What it is about, such as budget or anomaly."),
        sa.Column("subject", sa.Text(), nullable=False, comment="Month and amount of a budget, or an hour."),
        sa.Column(
            "level",
            sa.SmallInteger(),
            nullable=False,
            comment="Percent of the budget that is reached; 0 where it is about none.",
        ),
        sa.Column("title", sa.Text(), nullable=False, comment="It in a line."),
        sa.Column("message", sa.Text(), nullable=False, comment="It in sentences, as mail has it."),
        sa.Column("document", sa.Text(), nullable=False, comment="It as JSON, as webhooks have it."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was decided (UTC)."),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("pk_alerts")),
        sa.UniqueConstraint(
            "project_id", "kind", "subject", "level", name=op.f("uq_alerts_project_id_kind_subject_level")
        ),
    )
    op.create_table(
        "alert_deliveries",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the alert."),
        sa.Column("alert_id", sa.Uuid(), nullable=False, comment="The alert."),
        sa.Column("target_id", sa.Uuid(), nullable=False, comment="Where it goes."),
        sa.Column("attempts", sa.SmallInteger(), nullable=False, comment="How often it was tried."),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False, comment="When it is tried next (UTC)."),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True, comment="When it was taken (UTC)."),
        sa.Column(
            "parked_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When it was given up after too many tries (UTC).",
        ),
        sa.Column("answer", sa.Text(), nullable=True, comment="What came of the last try, in a few words."),
        sa.PrimaryKeyConstraint("project_id", "alert_id", "target_id", name=op.f("pk_alert_deliveries")),
    )
    op.create_index(
        "ix_alert_deliveries_due",
        "alert_deliveries",
        ["due_at"],
        unique=False,
        postgresql_where=sa.text("delivered_at IS NULL AND parked_at IS NULL"),
    )


def _create_intake() -> None:
    """What clients sent, how often they may, and what the reporting table lacks."""
    op.create_table(
        "otlp_clients",
        sa.Column(
            "project_id", sa.Text(), nullable=False, comment="Project that its runs belong to, also if it has none yet."
        ),
        sa.Column("service", sa.Text(), nullable=False, comment="Name of the service."),
        sa.Column("exporter", sa.Text(), nullable=False, comment="Family of the exporter, as its requests say."),
        sa.Column("signal", sa.Text(), nullable=False, comment="traces or logs."),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False, comment="When the first request came (UTC)."),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False, comment="When the last one came (UTC)."),
        sa.Column("requests", sa.BigInteger(), nullable=False, comment="Requests."),
        sa.Column("records", sa.BigInteger(), nullable=False, comment="Spans or log records."),
        sa.Column("runs", sa.BigInteger(), nullable=False, comment="Of these, stored as runs, now or before."),
        sa.Column(
            "twins", sa.BigInteger(), nullable=False, comment="Of these, calls that another record reported too."
        ),
        sa.Column("rejected", sa.BigInteger(), nullable=False, comment="Of these, rejected."),
        sa.Column("no_calls", sa.BigInteger(), nullable=False, comment="Of these, no calls of models."),
        sa.Column(
            "told_elsewhere",
            sa.BigInteger(),
            nullable=False,
            comment="Of these, of an agent that is read from another signal.",
        ),
        sa.PrimaryKeyConstraint("project_id", "service", "exporter", "signal", name=op.f("pk_otlp_clients")),
    )
    op.create_table(
        "rate_limits",
        sa.Column("key", sa.Text(), nullable=False, comment="What is limited, and by which limit."),
        sa.Column(
            "tat_ns",
            sa.BigInteger(),
            nullable=False,
            comment="When all that was granted is used up, in nanoseconds since 1970 (GCRA's TAT).",
        ),
        sa.Column("granted", sa.BigInteger(), nullable=False, comment="How many the last statement granted."),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_rate_limits")),
        prefixes=["UNLOGGED"],
    )
    op.create_table(
        "outbox",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the run."),
        sa.Column("run_id", sa.Text(), nullable=False, comment="The run."),
        sa.Column("version", sa.Integer(), nullable=False, comment="Version of the run that is to be pushed."),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False, comment="Since when the run waits (UTC)."),
        sa.Column(
            "due_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When it may be pushed next (UTC): at once, or after a pause, or when a relay that has it has had its time.",
        ),
        sa.Column(
            "attempts",
            sa.SmallInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Pushes of this version that failed.",
        ),
        sa.Column(
            "parked_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When the relay gave up, until somebody retries (UTC).",
        ),
        sa.Column("last_error", sa.Text(), nullable=True, comment="Why the last push failed; never content."),
        sa.PrimaryKeyConstraint("project_id", "run_id", name=op.f("pk_outbox")),
    )
    op.create_index(
        "ix_outbox_due_at", "outbox", ["due_at"], unique=False, postgresql_where=sa.text("parked_at IS NULL")
    )
    op.create_index(
        "ix_outbox_parked", "outbox", ["parked_at"], unique=False, postgresql_where=sa.text("parked_at IS NOT NULL")
    )
    op.create_table(
        "outbox_arrivals",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the runs."),
        sa.Column(
            "queued_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When the first of the runs was stored (UTC).",
        ),
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Number of the row."),
        sa.Column("runs", sa.Integer(), nullable=False, comment="How many they are."),
        sa.Column("run_ids", postgresql.ARRAY(sa.Text()), nullable=False, comment="The runs, in their first version."),
        sa.PrimaryKeyConstraint("project_id", "queued_at", "id", name=op.f("pk_outbox_arrivals")),
    )
    op.create_index("ix_outbox_arrivals_queued_at", "outbox_arrivals", ["queued_at"], unique=False)
    # Each request updates a row: room on its page keeps that from touching the index.
    op.execute("ALTER TABLE rate_limits SET (fillfactor = 50)")
    _vacuum_often("outbox_arrivals")
