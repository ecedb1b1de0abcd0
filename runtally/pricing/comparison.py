"""The registry beside the installed catalogue, as one process remembers it: to read the catalogue takes seconds."""

from importlib.metadata import version

from runtally.db.database import Connection
from runtally.pricing import catalogue
from runtally.pricing.catalogue_diff import Difference
from runtally.pricing.queries import select_version


class Comparison:
    """What was found, until the registry or the installed catalogue is another."""

    def __init__(self) -> None:
        self._of: tuple[str, str] | None = None
        self._found: tuple[Difference, ...] = ()

    async def known(self, connection: Connection) -> tuple[Difference, ...] | None:
        """None where it would have to be read."""
        return self._found if await _version(connection) == self._of else None

    async def read(self, connection: Connection) -> tuple[Difference, ...]:
        """Raises `CatalogueUnreadable`."""
        # Asked first: what changes meanwhile makes the next one compare anew.
        of = await _version(connection)
        if of != self._of:
            self._found, self._of = await catalogue.compare(connection), of
        return self._found


async def _version(connection: Connection) -> tuple[str, str]:
    return await select_version(connection), version(catalogue.PACKAGE)
