"""Budgets of projects for each month or day, of all runs or of those with one value."""

from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from sqlalchemy import CheckConstraint, SmallInteger
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, Usd, column

ALL_RUNS = ""
"""In `dimension`, in place of a name: the budget is for all runs."""
EACH_VALUE = ""
"""In `value`, in place of a value: the budget is for each value by itself. No value is blank."""


class BudgetPeriod(StrEnum):
    """The time that a budget is for, by the calendar in UTC."""

    DAY = "day"
    MONTH = "month"


class Budget(SQLModel, table=True):
    """A budget: the same for each day or month until it is changed."""

    __tablename__ = "budgets"
    __table_args__ = (
        CheckConstraint("amount_usd > 0", name="amount"),
        CheckConstraint("period IN ('day', 'month')", name="period"),
    )

    project_id: str = column("Project whose cost it is for; empty for all projects together.", key=True)
    dimension: str = column(
        "Dimension whose values it is for, such as user; empty: all runs.", key=True, default="", server_default="''"
    )
    value: str = column(
        "Value that it is for; empty: each value by itself, or all runs.", key=True, default="", server_default="''"
    )
    period: str = column("day or month (UTC).", key=True, default="month", server_default="'month'")
    amount_usd: Decimal = column("US dollars for a period.", Usd)
    alert_percents: list[int] = column("Shares in percent at which an alert is sent, ascending.", ARRAY(SmallInteger))
    created_at: datetime = column("When it was first set (UTC).", Timestamp)
    updated_at: datetime = column("When it was last changed (UTC).", Timestamp)
