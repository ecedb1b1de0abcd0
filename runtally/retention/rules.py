"""How long each project keeps its live runs: the rules of one process, and what follows from them."""

from datetime import datetime, timedelta

from runtally.clock import start_of_day
from runtally.db.database import Database
from runtally.retention.queries import Rule, select_rules


def kept_days(own: int | None, default: int | None) -> int | None:
    """Days that runs are kept, by what the project says and else the installation; None is for ever."""
    return (default if own is None else own) or None


class LiveRetention:
    """The rules as they were a moment ago; one per process."""

    def __init__(self, database: Database, default_days: int | None) -> None:
        self._database = database
        self._default_days = default_days
        self._rules: dict[str, Rule] = {}

    async def refresh(self) -> None:
        """Raises `StoreUnavailable` and then keeps the rules it has."""
        async with self._database.connection() as connection:
            self._rules = {rule.project_id: rule for rule in await select_rules(connection)}

    def taken_since(self, project_id: str, now: datetime) -> datetime | None:
        """Runs of before are refused; None takes any.

        Where runs were dropped nobody could tell a run that is sent again from a new one, and it would be counted twice.
        """
        rule = self._rules.get(project_id, _NONE)
        days = kept_days(rule.days, self._default_days)
        horizon = start_of_day(now) - timedelta(days=days) if days else None
        return max((each for each in (horizon, rule.dropped_before) if each), default=None)


_NONE = Rule("", None, None)
