"""The body of an ingest request, read and unpacked once: the rate limit wants its project, the route its runs."""

from typing import cast

from quart import g, request
from werkzeug.exceptions import HTTPException

from api.current import services
from runtally.errors import RuntallyError, UnsupportedMediaType
from runtally.ingest.decode import SentRequest, inflate, read_envelope


async def sent_request() -> SentRequest:
    """The request, its runs unread. Raises what is wrong with its body as a whole, every time it is asked."""
    if "sent_request" not in g:
        try:
            g.sent_request = read_envelope(await _json_body())
        except (RuntallyError, HTTPException) as error:
            g.sent_request = error
    if isinstance(g.sent_request, Exception):
        raise g.sent_request
    return cast(SentRequest, g.sent_request)


async def _json_body() -> bytes:
    if request.mimetype != "application/json" and not request.mimetype.endswith("+json"):
        raise UnsupportedMediaType
    body = cast(bytes, await request.get_data(cache=False))
    encoding = request.headers.get("Content-Encoding", "identity").strip().casefold()
    if encoding in {"gzip", "x-gzip"}:
        return inflate(body, services().settings.max_body_bytes)
    if encoding not in {"identity", ""}:
        raise UnsupportedMediaType("Send the body plain, or with Content-Encoding: gzip.")
    return body
