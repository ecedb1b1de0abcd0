"""Convert domain and framework errors to the contract's JSON. Only this module maps errors to HTTP statuses."""

from typing import Annotated, Any, Literal

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge, RequestTimeout

from api.auth import CHALLENGE
from api.exchange import note_error
from api.reply import Reply, reply
from runtally import errors
from runtally.errors import BodyTooLarge, BodyTooSlow, Detail, RateLimited, RuntallyError

RETRY_AFTER_SECONDS = 2

STATUS: dict[type[RuntallyError], int] = {
    errors.InvalidJson: 400,
    errors.InvalidOtlp: 400,
    errors.MissingProjectId: 400,
    errors.CellRequired: 400,
    errors.InvalidRange: 400,
    errors.InvalidInterval: 400,
    errors.InvalidFormat: 400,
    errors.InvalidFilter: 400,
    errors.InvalidExport: 400,
    errors.ProjectNotInferred: 400,
    errors.MissingKey: 401,
    errors.InvalidKey: 401,
    errors.InvalidSignature: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.UnknownCell: 404,
    errors.BodyTooSlow: 408,
    errors.Conflict: 409,
    errors.BodyTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.Unprocessable: 422,
    errors.RateLimited: 429,
    errors.MissingExtra: 501,
    errors.PasswordsBusy: 503,
    errors.NotConfigured: 503,
    errors.StoreUnavailable: 503,
    errors.QueryTooSlow: 503,
    errors.ArchiveTooLarge: 422,
    errors.ArchiveNotRead: 503,
    errors.ArchiveError: 503,
}
# Advice for errors that the framework raises.
_FRAMEWORK = {
    400: ("bad_request", "The server can't read this request; check how it is put together."),
    404: ("not_found", "There is nothing at this path; the API is described at /docs."),
    405: ("method_not_allowed", "This path takes another method; see the Allow header."),
    414: ("target_too_long", "The path and query of this request are too long; ask for less."),
    431: ("head_too_large", "The headers of this request are too large; send fewer or shorter ones."),
}

log = structlog.get_logger()


class Problem(msgspec.Struct, frozen=True):
    """An error: `code` is stable and for programs, `message` says what to do.

    `details` are present when fields break their constraints. They never repeat a value that was sent.
    """

    code: str
    message: str
    details: tuple[Detail, ...] | UnsetType = UNSET
    current: Annotated[Any, Meta(description="With `conflict`: what is there now.")] | UnsetType = UNSET


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request that failed."""

    ok: Literal[False] = False
    error: Problem


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error, for JSON and HTML alike."""
    if isinstance(error, RuntallyError):
        return status_of_kind(type(error))
    return error.code or 500 if isinstance(error, HTTPException) else 500


def status_of_kind(kind: type[RuntallyError]) -> int:
    """Return the status of the nearest ancestor that has one; an error without a status is a bug."""
    return next((STATUS[ancestor] for ancestor in kind.__mro__ if ancestor in STATUS), 500)


def known(error: Exception) -> RuntallyError | HTTPException | None:
    """Return the error if it may be shown; None for a bug, which is logged with its traceback and never shown."""
    if isinstance(error, RequestEntityTooLarge):
        return BodyTooLarge()
    if isinstance(error, RequestTimeout):
        return BodyTooSlow()
    if isinstance(error, RuntallyError | HTTPException):
        return error
    log.error("request_failed", error=type(error).__name__, exc_info=error)
    return None


def refusal(error: Exception) -> Reply:
    """Build the answer for the error, as the contract's JSON."""
    note_error(error)
    shown = known(error) or RuntallyError()
    status = status_of(shown)
    refused = reply(Failure(error=_problem(shown, status)), status)
    headers = refused.headers
    if isinstance(shown, errors.MissingKey | errors.InvalidKey):
        headers["WWW-Authenticate"] = CHALLENGE
    if isinstance(shown, errors.StoreUnavailable):
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    if isinstance(shown, RateLimited):
        headers["Retry-After"] = str(shown.retry_after_seconds)
    if isinstance(shown, HTTPException):
        headers.update({name: value for name, value in shown.get_headers() if name in {"Allow", "Retry-After"}})
    return refused


def problem(error: Exception) -> Problem:
    """Convert the error to a part of an answer."""
    shown = known(error) or RuntallyError()
    return _problem(shown, status_of(shown))


def _problem(shown: RuntallyError | HTTPException, status: int) -> Problem:
    if isinstance(shown, RuntallyError):
        current = shown.current if isinstance(shown, errors.Conflict) else UNSET
        return Problem(shown.code, shown.message, shown.details or UNSET, current)
    code, message = _FRAMEWORK.get(status, ("bad_request", "The server can't do this request; check it."))
    return Problem(code, message)
