"""Cells behind pages: a page about all projects shows those of all cells, and names cells that are away."""

from quart import request

import api
from api.cells import choose_cell
from api.current import incoming, services


async def begin() -> None:
    """Choose the cells of a request; the hook before access. Only a request to the API may name one."""
    await choose_cell(incoming(), request.view_args or {}, may_name=api.serves(request.path))


def are_several() -> bool:
    return services().cells.directory is not None
