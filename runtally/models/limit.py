"""How much of each rate limit is used."""

from sqlalchemy import BigInteger
from sqlmodel import SQLModel

from runtally.models.base import column


class RateLimit(SQLModel, table=True):
    """What a limit's key has used. A row whose time has passed says nothing and is deleted sooner or later."""

    __tablename__ = "rate_limits"
    # Counting is worth no WAL: a crash of Postgres empties the table, and every limit starts anew.
    __table_args__ = {"prefixes": ["UNLOGGED"]}

    key: str = column("What is limited, and by which limit.", key=True)
    # Microseconds would round the interval of large limits.
    tat_ns: int = column("When all that was granted is used up, in nanoseconds since 1970 (GCRA's TAT).", BigInteger)
    granted: int = column("How many the last statement granted.", BigInteger)
