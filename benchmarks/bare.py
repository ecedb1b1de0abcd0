"""The yardstick of the web framework: routes that do nothing but what every route must."""

import json

from quart import Quart, Response, request
from quart.typing import ResponseReturnValue

app = Quart(__name__)
ANSWER = json.dumps({"ok": True, "id": "019a9f4e-7c30-7d0c-8f4e-3f2a1b5c6d7e"})
IMAGE = f"<svg>{'.' * 1000}</svg>"


@app.post("/ingest")
async def ingest() -> ResponseReturnValue:
    """Decodes the body and answers."""
    json.loads(await request.get_data())
    return Response(ANSWER, content_type="application/json")


@app.get("/badge")
async def badge() -> ResponseReturnValue:
    """Answer as many bytes as a badge has."""
    return Response(IMAGE, content_type="image/svg+xml")


@app.get("/live")
async def live() -> ResponseReturnValue:
    """Say that the server answers."""
    return "", 204
