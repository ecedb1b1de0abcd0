"""Request fees, project prices and discounts, repricings; two prices for one name at one time are refused.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

AT = sa.DateTime(timezone=True)
PERIOD = "tstzrange(effective_from, effective_to) WITH &&"

# Before this, of two entries for one time an admin's was preferred, then the one that starts later, then the newer. The other
# one has priced nothing of their common time: it is cut where that leaves it its start, else withdrawn.
CUT = """
UPDATE price_entries AS cut
   SET effective_to = first.effective_from,
       updated_at = now()
  FROM (SELECT old.id, min(new.effective_from) AS effective_from
          FROM price_entries AS old
               JOIN price_entries AS new ON {same}
         WHERE new.source <= old.source
           AND new.effective_from > coalesce(old.effective_from, '-infinity')
           AND new.effective_from < coalesce(old.effective_to, 'infinity')
           AND coalesce(new.effective_to, 'infinity') >= coalesce(old.effective_to, 'infinity')
      GROUP BY old.id) AS first
 WHERE cut.id = first.id
"""
WITHDRAW = """
UPDATE price_entries AS old
   SET withdrawn_at = now(),
       updated_at = now(),
       catalogue_key = NULL
  FROM price_entries AS new
 WHERE {same}
   AND tstzrange(new.effective_from, new.effective_to) && tstzrange(old.effective_from, old.effective_to)
   AND (new.source, coalesce(old.effective_from, '-infinity'), old.id)
       < (old.source, coalesce(new.effective_from, '-infinity'), new.id)
"""
SAME = """new.id <> old.id
   AND new.provider = old.provider
   AND new.match = old.match
   AND coalesce(new.pattern, lower(new.model)) = coalesce(old.pattern, lower(old.model))
   AND new.above_input_tokens = old.above_input_tokens"""


def same(expression: str) -> str:
    return f"text_range({expression}, {expression}, '[]') WITH &&"


def upgrade() -> None:
    op.add_column(
        "price_entries",
        sa.Column(
            "project_id", sa.Text(), nullable=True, comment="Project that has negotiated this price; empty: all."
        ),
    )
    op.add_column(
        "price_entries",
        sa.Column(
            "per_thousand_requests",
            sa.Numeric(14, 6),
            nullable=True,
            comment="USD per thousand requests, beside the tokens; empty: none.",
        ),
    )
    op.add_column(
        "price_entries",
        sa.Column(
            "currency",
            sa.Text(),
            nullable=False,
            server_default=sa.text("'USD'"),
            comment="Currency of the amounts: USD.",
        ),
    )
    op.add_column(
        "price_entries",
        sa.Column("author", sa.Text(), nullable=True, comment="Who made the entry; empty: the catalogue."),
    )
    op.add_column(
        "price_entries",
        sa.Column(
            "withdrawn_at",
            AT,
            nullable=True,
            comment="Since when it prices nothing; it stays for the runs that it priced (UTC).",
        ),
    )
    op.create_check_constraint(op.f("ck_price_entries_currency"), "price_entries", "currency = 'USD'")
    op.execute(CUT.format(same=SAME))
    op.execute(WITHDRAW.format(same=SAME))
    # Not in an extension, which not everybody who may make tables may install.
    op.execute('CREATE TYPE text_range AS RANGE (subtype = text, collation = "C")')
    op.execute(f"""
        ALTER TABLE price_entries ADD CONSTRAINT ex_price_entries_overlap EXCLUDE USING gist (
            {same("coalesce(project_id, '')")},
            {same("provider")},
            {same("match")},
            {same("coalesce(pattern, lower(model))")},
            int8range(above_input_tokens, above_input_tokens, '[]') WITH &&,
            {PERIOD}
        ) WHERE (withdrawn_at IS NULL) DEFERRABLE INITIALLY IMMEDIATE
    """)
    _create_discounts()
    _create_repricings()


def _create_discounts() -> None:
    op.create_table(
        "project_discounts",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False, comment="Number of the row."),
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project that pays less."),
        sa.Column(
            "provider", sa.Text(), nullable=True, comment="Provider whose prices are discounted; empty: all others."
        ),
        sa.Column("percent", sa.Numeric(5, 2), nullable=False, comment="Percent off the list price."),
        sa.Column("effective_from", AT, nullable=True, comment="In force from (UTC); empty: ever since."),
        sa.Column("effective_to", AT, nullable=True, comment="In force until, exclusive (UTC); empty: still."),
        sa.Column("note", sa.Text(), nullable=True, comment="Why it is given."),
        sa.Column("author", sa.Text(), nullable=False, comment="Who entered it."),
        sa.Column("created_at", AT, nullable=False, comment="When it was entered (UTC)."),
        sa.Column("updated_at", AT, nullable=False, comment="When it last changed (UTC)."),
        sa.CheckConstraint("percent > 0 AND percent <= 100", name=op.f("ck_project_discounts_percent")),
        sa.CheckConstraint("effective_from < effective_to", name=op.f("ck_project_discounts_period")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_project_discounts")),
    )
    op.execute(f"""
        ALTER TABLE project_discounts ADD CONSTRAINT ex_project_discounts_overlap EXCLUDE USING gist (
            {same("project_id")},
            {same("coalesce(provider, '')")},
            {PERIOD}
        )
    """)


def _create_repricings() -> None:
    op.create_table(
        "repricings",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False, comment="Number of the row."),
        sa.Column(
            "state", sa.Text(), nullable=False, comment="comparing, compared, running, paused, done or cancelled."
        ),
        sa.Column("project_id", sa.Text(), nullable=True, comment="Only runs of this project; empty: of all."),
        sa.Column("provider", sa.Text(), nullable=True, comment="Only runs of this provider, as sent; empty: of all."),
        sa.Column("model", sa.Text(), nullable=True, comment="Only runs of this model, as sent; empty: of all."),
        sa.Column("since", AT, nullable=True, comment="Only runs from then on (UTC)."),
        sa.Column("until", AT, nullable=True, comment="Only runs before then (UTC)."),
        sa.Column("at_project", sa.Text(), nullable=True, comment="Project that it has come to."),
        sa.Column("at_time", AT, nullable=True, comment="Time of the last run that was looked at (UTC)."),
        sa.Column("at_run", sa.Text(), nullable=True, comment="The last run that was looked at."),
        sa.Column("runs", sa.BigInteger(), nullable=False, comment="Runs in its scope when it began."),
        sa.Column("seen", sa.BigInteger(), nullable=False, comment="Runs that were looked at."),
        sa.Column("changed", sa.BigInteger(), nullable=False, comment="Runs whose cost was changed."),
        sa.Column(
            "found",
            JSONB(none_as_null=True),
            nullable=False,
            comment="By project, provider and model: runs that change, with their cost before and after.",
        ),
        sa.Column("author", sa.Text(), nullable=False, comment="Who asked for it."),
        sa.Column("created_at", AT, nullable=False, comment="When it was asked for (UTC)."),
        sa.Column("updated_at", AT, nullable=False, comment="When it last went on (UTC)."),
        sa.CheckConstraint(
            "state IN ('comparing', 'compared', 'running', 'paused', 'done', 'cancelled')",
            name=op.f("ck_repricings_state"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_repricings")),
    )


def downgrade() -> None:
    # The code of before would charge everybody what one project has negotiated, and use what was withdrawn.
    op.execute("DELETE FROM price_entries WHERE project_id IS NOT NULL OR withdrawn_at IS NOT NULL")
    op.drop_table("repricings")
    op.drop_table("project_discounts")
    op.drop_constraint("ex_price_entries_overlap", "price_entries")
    op.execute("DROP TYPE text_range")
    for column in ("withdrawn_at", "author", "currency", "per_thousand_requests", "project_id"):
        op.drop_column("price_entries", column)
