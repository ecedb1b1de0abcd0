"""Projects, keys, prices and runs.

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


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity; safe to show."),
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
        "price_entries",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Number of the row."),
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
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When the entry was made (UTC)."),
        sa.Column(
            "updated_at", sa.DateTime(timezone=True), nullable=False, comment="When the entry last changed (UTC)."
        ),
        sa.CheckConstraint("(match = 'exact') = (pattern IS NULL)", name=op.f("ck_price_entries_pattern")),
        sa.CheckConstraint("match IN ('exact', 'prefix', 'regex')", name=op.f("ck_price_entries_match")),
        sa.CheckConstraint("source IN ('catalogue', 'admin')", name=op.f("ck_price_entries_source")),
        sa.CheckConstraint("above_input_tokens >= 0", name=op.f("ck_price_entries_above_input_tokens")),
        sa.CheckConstraint("effective_from < effective_to", name=op.f("ck_price_entries_period")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_price_entries")),
    )
    op.create_index("uq_price_entries_catalogue_key", "price_entries", ["catalogue_key"], unique=True)
    op.create_table(
        "projects",
        sa.Column("id", sa.Text(), nullable=False, comment="The projectId of the API."),
        sa.Column("name", sa.Text(), nullable=False, comment="Name shown in pages."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was first seen (UTC)."),
        sa.Column("archived_at", sa.DateTime(timezone=True), nullable=True, comment="Since when it is hidden (UTC)."),
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
        sa.Column("input_tokens", sa.BigInteger(), nullable=True, comment="Input tokens, cached ones included."),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True, comment="Output tokens, reasoning included."),
        sa.Column("cached_input_tokens", sa.BigInteger(), nullable=True, comment="Input tokens read from a cache."),
        sa.Column("cache_write_tokens", sa.BigInteger(), nullable=True, comment="Input tokens written to a cache."),
        sa.Column("reasoning_tokens", sa.BigInteger(), nullable=True, comment="Output tokens spent on reasoning."),
        sa.Column("latency_ms", sa.BigInteger(), nullable=True, comment="Latency in milliseconds."),
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
    op.create_index("ix_runs_project_id_occurred_at", "runs", ["project_id", "occurred_at"], unique=False)
    op.create_index(
        "ix_runs_unpriced", "runs", ["project_id", "id"], unique=False, postgresql_where=sa.text("cost_usd IS NULL")
    )


def downgrade() -> None:
    op.drop_index("ix_runs_unpriced", table_name="runs", postgresql_where=sa.text("cost_usd IS NULL"))
    op.drop_index("ix_runs_project_id_occurred_at", table_name="runs")
    op.drop_table("runs")
    op.drop_table("projects")
    op.drop_index("uq_price_entries_catalogue_key", table_name="price_entries")
    op.drop_table("price_entries")
    op.drop_index("uq_api_keys_key_hash", table_name="api_keys")
    op.drop_table("api_keys")
