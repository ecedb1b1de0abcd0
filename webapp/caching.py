"""Pages and charts: a browser keeps them for Back, and asks each time whether they are still true; if so, a 304 says that."""

import hashlib

from quart import Response, request

ASK_FIRST = "private, no-cache"
"""The figures change with every run, so nothing is shown again unasked."""


async def confirm(response: Response) -> Response:
    """Answers 304 without a body when the browser has this very answer already. Weak, because it may be compressed later."""
    if (
        response.headers.get("Cache-Control") == ASK_FIRST
        and response.status_code == 200  # noqa: PLR2004  # Only what was found can be the same as before.
        and request.method in {"GET", "HEAD"}
        and "Set-Cookie" not in response.headers
    ):
        body = await response.get_data(as_text=False)
        response.set_etag(hashlib.sha256(body).hexdigest()[:32], weak=True)
        await response.make_conditional(request)
    return response
