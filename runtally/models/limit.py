"""The state of rate limits in Postgres."""

from sqlalchemy import BigInteger
from sqlmodel import SQLModel

from runtally.models.base import column


class RateLimit(SQLModel, table=True):
    """The use of a rate-limit key. A row whose time has passed means nothing, and is deleted later."""

    __tablename__ = "rate_limits"
    # Counts need no WAL: a crash of Postgres empties the table, and every limit starts again.
    __table_args__ = {"prefixes": ["UNLOGGED"]}

    key: str = column("What is limited, and by which limit.", key=True)
    # Microseconds would round the interval of large limits.
    tat_ns: int = column("When all that was granted is used up, in nanoseconds since 1970 (GCRA's TAT).", BigInteger)
    granted: int = column("How many the last statement granted.", BigInteger)
