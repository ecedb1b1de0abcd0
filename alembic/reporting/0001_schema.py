"""Create the reporting table and its views.

Rules: expand first, backfill apart, contract a release later. The project leads the primary key. No triggers, and nothing
that the main tables are needed for: they may be in another database. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

DAY = ("day", "(occurred_at AT TIME ZONE 'UTC')::date", "Day in UTC.")
PROJECT = ("project_id", "project_id", "Project.")
PROVIDER = ("provider", "provider", "Provider, as sent.")
MODEL = ("model", "model", "Model, as sent.")
EXPERIMENT = ("experiment_id", "experiment_id", "Experiment; runs without one are left out.")
MEASURES = (
    ("runs", "count(*)", "Runs."),
    ("errors", "count(*) FILTER (WHERE status = 'error')", "Runs that failed."),
    ("timeouts", "count(*) FILTER (WHERE status = 'timeout')", "Runs that timed out."),
    ("input_tokens", "coalesce(sum(input_tokens), 0)", "Input tokens, cached ones included."),
    ("output_tokens", "coalesce(sum(output_tokens), 0)", "Output tokens, reasoning included."),
    ("cost_usd", "coalesce(sum(cost_usd), 0)", "Cost in US dollars, exact; runs without a known cost add nothing."),
    (
        "estimated_cost_usd",
        "coalesce(sum(cost_usd) FILTER (WHERE cost_estimated), 0)",
        "Part of the cost that is an estimate.",
    ),
    ("unpriced_runs", "count(*) FILTER (WHERE cost_usd IS NULL)", "Runs whose cost is not known."),
    (
        "p95_latency_ms",
        "percentile_disc(0.95) WITHIN GROUP (ORDER BY latency_ms)",
        "Latency in milliseconds that 95 % of the runs stay within; empty when none reported its latency.",
    ),
)
VIEWS = (
    ("reporting_daily_projects", "Runs and cost by day and project.", (DAY, PROJECT), ""),
    ("reporting_daily_providers", "Runs and cost by day, project and provider.", (DAY, PROJECT, PROVIDER), ""),
    ("reporting_daily_models", "Runs and cost by day, project and model.", (DAY, PROJECT, PROVIDER, MODEL), ""),
    (
        "reporting_daily_experiments",
        "Runs and cost by day, project and experiment.",
        (DAY, PROJECT, EXPERIMENT),
        "WHERE experiment_id IS NOT NULL",
    ),
)


def upgrade() -> None:
    op.create_table(
        "reporting_runs",
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
        sa.Column(
            "synced_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When this version of the run arrived here (UTC).",
        ),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("pk_reporting_runs")),
        comment="Runs for business-intelligence tools: one wide, flat row each. Outlives the retention of live runs.",
        info={"database": "reporting"},
    )
    op.create_index("ix_reporting_runs_occurred_at", "reporting_runs", ["occurred_at"], unique=False)
    op.create_index(
        "ix_reporting_runs_project_id_occurred_at", "reporting_runs", ["project_id", "occurred_at"], unique=False
    )
    for name, comment, keys, condition in VIEWS:
        columns = (*keys, *MEASURES)
        selected = ", ".join(f"{expression} AS {column}" for column, expression, _ in columns)
        groups = ", ".join(expression for _, expression, _ in keys)
        op.execute(f"CREATE VIEW {name} AS SELECT {selected} FROM reporting_runs {condition} GROUP BY {groups}")  # noqa: S608  # Names of this file.
        op.execute(f"COMMENT ON VIEW {name} IS '{comment}'")
        for column, _, meaning in columns:
            op.execute(f"COMMENT ON COLUMN {name}.{column} IS '{meaning}'")


def downgrade() -> None:
    # The table may hold runs that are no longer anywhere else.
    raise NotImplementedError("Drop reporting_runs and its views by hand, if that is what you want.")
