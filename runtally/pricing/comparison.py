"""Remember the comparison of the registry with the catalogue, since reading the catalogue takes seconds."""

from importlib.metadata import version

from runtally.db.database import Connection
from runtally.pricing import catalogue
from runtally.pricing.catalogue_diff import Difference
from runtally.pricing.queries import select_version


class Comparison:
    """The last comparison, valid until the registry or the installed catalogue changes; one per process."""

    def __init__(self) -> None:
        self._of: tuple[str, str] | None = None
        self._found: tuple[Difference, ...] = ()

    async def known(self, connection: Connection) -> tuple[Difference, ...] | None:
        """Return the comparison if it is current; None if it would have to be computed."""
        return self._found if await _version(connection) == self._of else None

    async def read(self, connection: Connection) -> tuple[Difference, ...]:
        """Return the comparison, computed if necessary. Raises `CatalogueUnreadable`."""
        # Read the version first: a change in between then makes the next comparison compute anew.
        of = await _version(connection)
        if of != self._of:
            self._found, self._of = await catalogue.compare(connection), of
        return self._found


async def _version(connection: Connection) -> tuple[str, str]:
    return await select_version(connection), version(catalogue.PACKAGE)
