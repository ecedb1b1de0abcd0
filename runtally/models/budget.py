"""The budget of a project for each month."""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import CheckConstraint, SmallInteger
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, Usd, column


class Budget(SQLModel, table=True):
    """A project's budget: the same for each calendar month until it is changed."""

    __tablename__ = "budgets"
    __table_args__ = (CheckConstraint("amount_usd > 0", name="amount"),)

    project_id: str = column("Project whose cost it is for.", key=True)
    amount_usd: Decimal = column("US dollars for a calendar month (UTC).", Usd)
    alert_percents: list[int] = column("Shares in percent at which somebody is told, ascending.", ARRAY(SmallInteger))
    created_at: datetime = column("When it was first set (UTC).", Timestamp)
    updated_at: datetime = column("When it was last changed (UTC).", Timestamp)
