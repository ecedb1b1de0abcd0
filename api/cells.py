"""Choose the cells of a request, where there are several: that of its project, the one that it names, or all."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from api.request import Request
from runtally.cells.request import asked
from runtally.fields import is_project_id, trimmed

PARAMETER = "cell"
OfCell = Annotated[str, Meta(description="Where there are several cells: all projects of this one.")]
MissingCells = Annotated[
    tuple[str, ...],
    Meta(
        description="Only over all projects, while a cell is away: the cells whose projects the sums leave out. They are complete "
        "without this field."
    ),
]
_OF_PROJECTS = ("projectId", "project")


async def choose_cell(request: Request, path: Mapping[str, str], *, may_name: bool = True) -> None:
    """Choose the cells of a request by its path and query. Raises `UnknownCell` and `StoreUnavailable`."""
    cells = request.services.cells
    if cells.directory is None:
        return
    query = request.query
    named = [path.get("project_id", "").removesuffix(".svg"), *map(query.get, _OF_PROJECTS)]
    project_id = next((one for one in map(trimmed, filter(None, named)) if is_project_id(one)), None)
    await cells.choose(project_id, query.get(PARAMETER) if may_name else None)


async def choose_own_cell(request: Request) -> None:
    """Choose the cell of the one project that the actor may read, unless it asks for another. Raises `StoreUnavailable`."""
    cells, own = request.services.cells, request.actor.project_id
    if cells.directory is not None and own is not None:
        await cells.choose(own, asked().named)
