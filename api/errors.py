"""Domain and framework errors to the contract's JSON error shape: the only place that knows which status is which."""

import structlog
from quart import Response
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from api.auth import CHALLENGE
from api.reply import reply
from runtally import errors
from runtally.errors import BodyTooLarge, RuntallyError

RETRY_AFTER_SECONDS = 2

STATUS: dict[type[RuntallyError], int] = {
    errors.InvalidJson: 400,
    errors.MissingProjectId: 400,
    errors.InvalidRange: 400,
    errors.InvalidInterval: 400,
    errors.ProjectNotInferred: 400,
    errors.MissingKey: 401,
    errors.InvalidKey: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.BodyTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.InvalidPayload: 422,
    errors.BatchTooLarge: 422,
    errors.NotConfigured: 503,
    errors.StoreUnavailable: 503,
}
# What a client can do about an error that the framework found.
_FRAMEWORK = {
    400: ("bad_request", "The server can't read this request; check how it is put together."),
    404: ("not_found", "There is nothing at this path; the API is described in docs/api.md."),
    405: ("method_not_allowed", "This path takes another method; see the Allow header."),
    408: ("request_timeout", "The body took too long to arrive; send it again."),
}

log = structlog.get_logger()


def status_of(error: Exception) -> int:
    """The HTTP status of an error, for JSON and HTML alike."""
    if isinstance(error, RuntallyError):
        return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)
    return error.code or 500 if isinstance(error, HTTPException) else 500


def known(error: Exception) -> RuntallyError | HTTPException | None:
    """The error as one that may be shown; None for a bug, which is logged with its traceback and never shown."""
    if isinstance(error, RequestEntityTooLarge):
        return BodyTooLarge()
    if isinstance(error, RuntallyError | HTTPException):
        return error
    log.error("request_failed", error=type(error).__name__, exc_info=error)
    return None


async def respond(error: Exception) -> Response:
    """The error as the contract's JSON."""
    shown = known(error) or RuntallyError()
    status = status_of(shown)
    body: dict[str, object] = {}
    if isinstance(shown, RuntallyError):
        body = {"code": shown.code, "message": shown.message}
        if shown.details:
            body["details"] = shown.details
    else:
        code, message = _FRAMEWORK.get(status, ("bad_request", "The server can't do this request; check it."))
        body = {"code": code, "message": message}
    response = reply({"ok": False, "error": body}, status)
    if isinstance(shown, errors.MissingKey | errors.InvalidKey):
        response.headers["WWW-Authenticate"] = CHALLENGE.to_header()
    if isinstance(shown, errors.StoreUnavailable):
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    if isinstance(shown, HTTPException):
        for name, value in shown.get_headers():
            if name in {"Allow", "Retry-After"}:
                response.headers[name] = value
    return response
