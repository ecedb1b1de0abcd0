"""Budgets for each month, day or hour, of all runs or of those with one value, and the bills of vendors."""

import uuid
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from sqlalchemy import CheckConstraint, Date, SmallInteger, Uuid
from sqlalchemy.dialects.postgresql import ARRAY
from sqlmodel import SQLModel

from runtally.models.base import Json, Timestamp, Usd, column

ALL_RUNS = ""
"""In `dimension`, in place of a name: the budget is for all runs."""
EACH_VALUE = ""
"""In `value`, in place of a value: the budget is for each value by itself. No value is blank."""


class BudgetPeriod(StrEnum):
    """The time that a budget is for, by the calendar in UTC."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"

    @property
    def each(self) -> str:
        """What an amount of money is for: `an hour`."""
        return f"{'an' if self is BudgetPeriod.HOUR else 'a'} {self}"


class Budget(SQLModel, table=True):
    """A budget: the same for each hour, day or month until it is changed."""

    __tablename__ = "budgets"
    __table_args__ = (
        CheckConstraint("amount_usd > 0", name="amount"),
        CheckConstraint("period IN ('hour', 'day', 'month')", name="period"),
    )

    project_id: str = column("Project whose cost it is for; empty for all projects together.", key=True)
    dimension: str = column(
        "Dimension whose values it is for, such as user; empty: all runs.", key=True, default="", server_default="''"
    )
    value: str = column(
        "Value that it is for; empty: each value by itself, or all runs.", key=True, default="", server_default="''"
    )
    period: str = column("hour, day or month (UTC).", key=True, default="month", server_default="'month'")
    amount_usd: Decimal = column("US dollars for a period.", Usd)
    alert_percents: list[int] = column("Shares in percent at which an alert is sent, ascending.", ARRAY(SmallInteger))
    created_at: datetime = column("When it was first set (UTC).", Timestamp)
    updated_at: datetime = column("When it was last changed (UTC).", Timestamp)


class Bill(SQLModel, table=True):
    """What a vendor billed for some days: its own report's sums, or an amount. The file itself is not kept."""

    __tablename__ = "bills"

    id: uuid.UUID = column("Identity; safe to show.", Uuid, key=True)
    provider: str = column("Provider that sent it, as runs name it.")
    since: date = column("First day (UTC).", Date)
    until: date = column("Day after the last one (UTC).", Date)
    amount_usd: Decimal | None = column(
        "US dollars that were billed; NULL: the report has counts alone.", Usd, default=None
    )
    tolerance_usd: Decimal | None = column(
        "Difference in US dollars above which an alert is sent; NULL: none.", Usd, default=None
    )
    files: list[dict[str, str]] = column("Kind and SHA-256 of each file that was read; empty for an amount.", Json)
    rows: list[dict[str, Any]] = column("Sums of the report by day, model, line, key, tier and region.", Json)
    created_at: datetime = column("When it was stored (UTC).", Timestamp)
    created_by: str = column("Who stored it, as pages show them.")
