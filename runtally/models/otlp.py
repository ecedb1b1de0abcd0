"""Counts of OTLP requests by client."""

from datetime import datetime

import msgspec
from sqlalchemy import BigInteger
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, column

RUNS = "runs"


class OtlpClient(SQLModel, table=True):
    """Counts of what one service sent to one project by one kind of exporter: enough to explain missing runs."""

    __tablename__ = "otlp_clients"

    project_id: str = column("Project that its runs belong to, also if it has none yet.", key=True)
    service: str = column("Name of the service.", key=True)
    exporter: str = column("Family of the exporter, as its requests say.", key=True)
    signal: str = column("traces or logs.", key=True)
    first_at: datetime = column("When the first request came (UTC).", Timestamp)
    last_at: datetime = column("When the last one came (UTC).", Timestamp)
    requests: int = column("Requests.", BigInteger)
    records: int = column("Spans or log records.", BigInteger)
    runs: int = column("Of these, stored as runs, now or before.", BigInteger)
    twins: int = column("Of these, calls that another record reported too.", BigInteger)
    rejected: int = column("Of these, rejected.", BigInteger)
    no_calls: int = column("Of these, no calls of models.", BigInteger)
    told_elsewhere: int = column("Of these, of an agent that is read from another signal.", BigInteger)


class Client(msgspec.Struct):
    """A row of `OtlpClient` in Python: its columns, in their order."""

    project_id: str
    service: str
    exporter: str
    signal: str
    first_at: datetime
    last_at: datetime
    requests: int = 0
    records: int = 0
    runs: int = 0
    twins: int = 0
    rejected: int = 0
    no_calls: int = 0
    told_elsewhere: int = 0

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.project_id, self.service, self.exporter, self.signal

    @property
    def outcomes(self) -> tuple[tuple[int, str], ...]:
        """The numbers of records by outcome, in words."""
        known = (
            (self.runs, RUNS),
            (self.twins, "duplicates of another record"),
            (self.no_calls, "no calls of models"),
            (self.told_elsewhere, "read from the agent's other signal instead"),
            (self.rejected, "rejected"),
        )
        return tuple((number, meaning) for number, meaning in known if number)

    @property
    def has_runs(self) -> bool:
        """Whether any of the records was a run."""
        return bool(self.runs or self.twins)

    @property
    def has_calls(self) -> bool:
        """Whether any of the records was a call of a model, or may be one that another signal reports."""
        return self.has_runs or bool(self.rejected or self.told_elsewhere)
