"""Suggest providers and models for a form: those in use, and priced models of the same vendors."""

from dataclasses import dataclass

from api.current import services
from runtally.db.database import Connection
from runtally.pricing.queries import select_priced_names
from runtally.runs.rollup_queries import select_names

MOST = 400


@dataclass(frozen=True, slots=True)
class Names:
    """Providers, and models with their provider."""

    providers: tuple[str, ...] = ()
    models: tuple[tuple[str, str], ...] = ()


async def names_of(control: Connection, connection: Connection, project_id: str | None = None) -> Names:
    """Return the names that a project's runs have, or those of all projects, before the vendors' other models."""
    used = await select_names(connection, project_id)
    providers = tuple(dict.fromkeys(provider for provider, _ in used))
    priced = await select_priced_names(control, providers, MOST)
    return Names(providers, tuple(dict.fromkeys((*used, *priced))))


async def names_in_use() -> Names:
    """Return the names of all projects, for a form of an admin."""
    async with (
        services().cells.of(None).reading.connection() as connection,
        services().control_beside(connection, None) as control,
    ):
        return await names_of(control, connection)
