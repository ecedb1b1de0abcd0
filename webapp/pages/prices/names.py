"""Suggest providers and models for a form: those in use, and priced models of the same vendors."""

from msgspec import Struct

from api.current import services
from runtally.db.database import Connection
from runtally.pricing.queries import select_priced_names
from runtally.runs.scan import select_names
from runtally.usage.snapshots import Snapshots

MOST = 400


class Names(Struct, frozen=True):
    """Providers, and models with their provider."""

    providers: tuple[str, ...] = ()
    models: tuple[tuple[str, str], ...] = ()


async def names_of(control: Connection, snapshots: Snapshots, project_id: str | None = None) -> Names:
    """Return the names that most of a project's runs have, or of those of all projects, before the vendors' other models."""
    of_each = await snapshots.of_each(lambda one: select_names(one, project_id, MOST))
    used = dict.fromkeys(name for of_one in of_each for name in of_one)
    providers = tuple(dict.fromkeys(provider for provider, _ in used))
    priced = await select_priced_names(control, providers, MOST)
    return Names(providers, tuple(dict.fromkeys((*used, *priced))))


async def names_in_use() -> Names:
    """Return the names of all projects, for a form of an admin."""
    async with services().cells.snapshots(None) as snapshots, services().open_control(snapshots) as control:
        return await names_of(control, snapshots)
