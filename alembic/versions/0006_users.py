"""Users, their sessions and roles, and who did what.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
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
        "invitations",
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity; safe to show."),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False, comment="SHA-256 of the token in the link."),
        sa.Column("email", sa.Text(), nullable=True, comment="Address it is for; empty: whoever opens it says theirs."),
        sa.Column("role", sa.Text(), nullable=True, comment="Role that it gives; empty: a new password for user_id."),
        sa.Column("project_id", sa.Text(), nullable=True, comment="Project that the role is for; empty: all."),
        sa.Column("user_id", sa.Uuid(), nullable=True, comment="User whose password it sets."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was made (UTC)."),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False, comment="From when it is refused (UTC)."),
        sa.CheckConstraint("(role IS NULL) = (user_id IS NOT NULL)", name=op.f("ck_invitations_purpose")),
        sa.CheckConstraint(
            "(role = 'admin') = (project_id IS NULL) OR role IS NULL", name=op.f("ck_invitations_project")
        ),
        sa.CheckConstraint("role IN ('admin', 'member', 'viewer')", name=op.f("ck_invitations_role")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_invitations_project_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_invitations_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invitations")),
    )
    op.create_index("uq_invitations_token_hash", "invitations", ["token_hash"], unique=True)
    op.create_table(
        "audit_entries",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False, comment="Number of the row."),
        sa.Column(
            "at", sa.DateTime(timezone=True), nullable=False, server_default=sa.text("now()"), comment="When (UTC)."
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
        sa.Column("before", JSONB(none_as_null=True), nullable=True, comment="What changed, as it was."),
        sa.Column("after", JSONB(none_as_null=True), nullable=True, comment="What changed, as it is since."),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_entries")),
    )
    op.create_index("ix_audit_entries_project_id_id", "audit_entries", ["project_id", "id"], unique=False)


def downgrade() -> None:
    op.drop_table("audit_entries")
    op.drop_table("invitations")
    op.drop_table("sessions")
    op.drop_table("memberships")
    op.drop_table("users")
