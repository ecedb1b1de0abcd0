"""GET /api/openapi.json."""

from typing import Any

from quart import Blueprint, current_app
from quart.typing import ResponseReturnValue

from api.access import public
from api.current import services
from api.openapi import document, routes_of
from api.operation import Answer, Content, Operation, documents
from api.reply import reply

blueprint = Blueprint("docs", __name__, url_prefix="/api")

_EXTENSION = "runtally.openapi"

OPENAPI = Operation(tag="Reference", answers={200: Answer("OpenAPI 3.1, as JSON.", (Content((dict[str, Any],)),))})


@blueprint.get("/openapi.json")
@public
@documents(OPENAPI)
async def get_openapi() -> ResponseReturnValue:
    """Describe this API, for programs; people read it at /docs.

    The document is generated from the types that validate requests and answers, so it describes this server with its
    limits.
    """
    response = reply(described())
    response.headers["Cache-Control"] = "public, max-age=300"
    return response


def described() -> dict[str, Any]:
    """Return the document of this application, built once."""
    made = current_app.extensions
    if _EXTENSION not in made:
        made[_EXTENSION] = document(routes_of(current_app), services().settings)
    return dict(made[_EXTENSION])
