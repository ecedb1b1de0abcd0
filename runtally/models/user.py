"""Users: their roles and projects, their sessions, and the links of invitations."""

import uuid
from datetime import datetime
from enum import StrEnum

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, LargeBinary, Uuid
from sqlalchemy.types import Boolean
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, column


class Role(StrEnum):
    """The role of a user: an admin has it in every project, the others in those that they are members of."""

    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


class User(SQLModel, table=True):
    """A person who signs in, with a password or through an OpenID provider."""

    __tablename__ = "users"
    # Users sign in by address, which is stored in lower case.
    __table_args__ = (Index("uq_users_email", "email", unique=True),)

    id: uuid.UUID = column("Identity.", Uuid, key=True)
    email: str = column("Address to sign in with, in lower case.")
    name: str = column("Name shown in pages.")
    password_hash: str = column("Argon2id hash of the password, with its parameters.")
    is_admin: bool = column("Whether everything is open to them, in every project.", Boolean)
    created_at: datetime = column("When they joined (UTC).", Timestamp)
    disabled_at: datetime | None = column("Since when they may not sign in (UTC).", Timestamp, default=None)
    seen_at: datetime | None = column("Last use, to the minute (UTC).", Timestamp, default=None)


class Identity(SQLModel, table=True):
    """A user's identity at an OpenID provider."""

    __tablename__ = "identities"
    __table_args__ = (
        ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        # Used to delete them with their user.
        Index("ix_identities_user_id", "user_id"),
    )

    issuer: str = column("URL of the provider.", key=True)
    subject: str = column("Who they are there, for ever.", key=True)
    user_id: uuid.UUID = column("The user.", Uuid)
    created_at: datetime = column("When they first signed in with it (UTC).", Timestamp)


class Membership(SQLModel, table=True):
    """The role in one project of a user who is not an admin."""

    __tablename__ = "memberships"
    __table_args__ = (
        CheckConstraint("role IN ('member', 'viewer')", name="role"),
        ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        # Each request reads those of one user.
        Index("ix_memberships_user_id", "user_id"),
    )

    project_id: str = column("The project.", key=True)
    user_id: uuid.UUID = column("The user.", Uuid, key=True)
    role: str = column("member or viewer.")


class GroupRole(SQLModel, table=True):
    """The role in one project, or of an admin, of the people of a group at the OpenID provider."""

    __tablename__ = "group_roles"
    __table_args__ = (
        CheckConstraint("role IN ('admin', 'member', 'viewer')", name="role"),
        CheckConstraint("(role = 'admin') = (project_id = '')", name="project"),
    )

    project_id: str = column("The project; empty: all, for admins.", key=True)
    group_name: str = column("The group, as the provider's claim has it.", key=True)
    role: str = column("admin, member or viewer.")


class Session(SQLModel, table=True):
    """A session in one browser, of a user or of a key."""

    __tablename__ = "sessions"
    __table_args__ = (
        CheckConstraint("(user_id IS NULL) <> (key_id IS NULL)", name="holder"),
        ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        ForeignKeyConstraint(["key_id"], ["api_keys.id"], ondelete="CASCADE"),
        # All sessions of a user, or of a key, end at once.
        Index("ix_sessions_user_id", "user_id"),
        Index("ix_sessions_key_id", "key_id"),
    )

    token_hash: bytes = column("SHA-256 of what the cookie holds.", LargeBinary, key=True)
    user_id: uuid.UUID | None = column("User who is signed in.", Uuid, default=None)
    key_id: uuid.UUID | None = column("Key that was signed in with.", Uuid, default=None)
    created_at: datetime = column("When they signed in (UTC).", Timestamp)
    seen_at: datetime = column("Last use, to the minute (UTC).", Timestamp)
    expires_at: datetime = column("When it ends, however busy it is (UTC).", Timestamp)


class SecretKeyFingerprint(SQLModel, table=True):
    """A SECRET_KEY with which the service was started, by a keyed hash that tells nothing of it."""

    __tablename__ = "secret_key_fingerprints"

    fingerprint: bytes = column("HMAC-SHA256 of a constant, keyed with it; its first 16 bytes.", LargeBinary, key=True)
    first_at: datetime = column("When the service first started with it (UTC).", Timestamp)


class Invitation(SQLModel, table=True):
    """A link that works once: to create an account, or to set a new password."""

    __tablename__ = "invitations"
    __table_args__ = (
        CheckConstraint("role IN ('admin', 'member', 'viewer')", name="role"),
        CheckConstraint("(role = 'admin') = (project_id IS NULL) OR role IS NULL", name="project"),
        CheckConstraint("(role IS NULL) = (user_id IS NOT NULL)", name="purpose"),
        ForeignKeyConstraint(["user_id"], ["users.id"], ondelete="CASCADE"),
        # A link is found by the hash of its token.
        Index("uq_invitations_token_hash", "token_hash", unique=True),
    )

    id: uuid.UUID = column("Identity; safe to show.", Uuid, key=True)
    token_hash: bytes = column("SHA-256 of the token in the link.", LargeBinary)
    email: str | None = column("Address it is for; empty: the person who accepts it enters one.", default=None)
    role: str | None = column("Role that it gives; empty: a new password for user_id.", default=None)
    project_id: str | None = column("Project that the role is for; empty: all.", default=None)
    user_id: uuid.UUID | None = column("User whose password it sets.", Uuid, default=None)
    created_at: datetime = column("When it was made (UTC).", Timestamp)
    expires_at: datetime = column("From when it is refused (UTC).", Timestamp)
