"""The retention of each project, as a process has loaded it."""

from datetime import datetime, timedelta

from runtally.clock import start_of_day
from runtally.db.database import Database
from runtally.retention.queries import Rule, select_rules


def kept_days(own: int | None, default: int | None) -> int | None:
    """Return the days that runs are kept: the project's own number, else the installation's. None means for ever."""
    return (default if own is None else own) or None


class LiveRetention:
    """The rules as they were a moment ago; one per process."""

    def __init__(self, database: Database, default_days: int | None) -> None:
        self._database = database
        self._default_days = default_days
        self._rules: dict[str, Rule] = {}

    async def refresh(self) -> None:
        """Read the rules. Raises `StoreUnavailable`, and then keeps those it has."""
        async with self._database.connection() as connection:
            self._rules = {rule.project_id: rule for rule in await select_rules(connection)}

    def accepted_since(self, project_id: str, now: datetime) -> datetime | None:
        """Return the moment since when the project accepts runs; None if it accepts any.

        A run that was dropped cannot be recognised when it is sent again, and would be counted twice.
        """
        rule = self._rules.get(project_id, _NONE)
        days = kept_days(rule.days, self._default_days)
        horizon = start_of_day(now) - timedelta(days=days) if days else None
        return max((each for each in (horizon, rule.dropped_before) if each), default=None)


_NONE = Rule("", None, None)
