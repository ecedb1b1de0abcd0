"""Bills of vendors, which are checked against the costs that were computed."""

import uuid
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Date, Uuid
from sqlmodel import SQLModel

from runtally.models.base import Json, Timestamp, Usd, column


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
