"""The cell whose projects a page shows that is about no single one, where there are several: the reader chooses it."""

from dataclasses import dataclass
from urllib.parse import urlencode

from quart import Response, request

import api
from api.cells import PARAMETER, choose_cell
from api.current import incoming, services
from runtally.cells import chosen
from runtally.settings import MAIN

COOKIE = "cell"


@dataclass(frozen=True, slots=True)
class CellChoice:
    """The cell that was chosen, and the others."""

    name: str
    others: tuple[str, ...]
    of_project: bool
    """Whether the page is about one project, and so has no choice."""


async def begin() -> Response | None:
    """Choose the cell of a request; the hook before access. The API has no default. Raises `UnknownCell`.

    A page's address with another choice is answered with the address without it, and a cookie that keeps the choice.
    """
    cells = services().cells
    if cells.directory is None:
        return None
    kept, is_page = request.cookies.get(COOKIE), not api.serves(request.path)
    await choose_cell(incoming(), request.view_args or {}, (kept if kept in cells.names else MAIN) if is_page else None)
    named = request.args.get(PARAMETER)
    if named is None or not is_page:
        return None
    others = [(name, value) for name, value in request.args.items(multi=True) if name != PARAMETER]
    response = Response(status=303, headers={"Location": f"{request.path}?{urlencode(others)}".rstrip("?")})
    response.set_cookie(COOKIE, named, httponly=True, secure=request.is_secure, samesite="Lax")
    return response


def choice() -> CellChoice | None:
    """Return the choice that the page shows; None where there is one cell."""
    name = chosen()
    if services().cells.directory is None or name is None:
        return None
    is_of_project = "project_id" in (request.view_args or {}) or bool(request.args.get("project"))
    return CellChoice(name, tuple(one for one in services().cells.names if one != name), is_of_project)
