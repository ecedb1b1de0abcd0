"""Decode the body of an ingest request once, for both the rate limit (its project) and the route (its runs)."""

from api.request import Request
from runtally.errors import UnsupportedMediaType
from runtally.ingest.decode import SentRequest, inflate, read_envelope


async def sent_request(request: Request) -> SentRequest:
    """Decode the request, but not its runs. Raises what is wrong with its body as a whole.

    Call it by `Request.once`.
    """
    if not request.is_json:
        raise UnsupportedMediaType
    return opened(request, await request.body())


def opened(request: Request, body: bytes) -> SentRequest:
    """Do the same with a body that has arrived."""
    if not request.is_json:
        raise UnsupportedMediaType
    encoding = request.content_encoding
    if encoding in {"gzip", "x-gzip"}:
        body = inflate(body, request.services.settings.max_body_bytes)
    elif encoding != "identity":
        raise UnsupportedMediaType("Send the body plain, or with Content-Encoding: gzip.")
    return read_envelope(body)
