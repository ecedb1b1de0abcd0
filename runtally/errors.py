"""Errors that the client or the operator can cause: each has a stable code and a sentence that says what to do.

`api.errors` maps them to HTTP statuses.
"""

from dataclasses import dataclass
from typing import Self

from runtally.files import REPAIR_COMMAND

MAX_DETAILS = 50


@dataclass(frozen=True, slots=True)
class Detail:
    """A field that broke its constraint.

    `path` is its place (`runs[3].provider`), `message` the constraint. Neither ever holds a value that was sent: it
    could be a prompt or a key.
    """

    path: str
    message: str


class RuntallyError(Exception):
    """The base class: `code` is stable for clients; `message` is one sentence that says what to do."""

    code = "internal_error"
    message = "Something broke on our side; try again, and report the request id if it stays."

    def __init__(self, message: str | None = None, *, details: tuple[Detail, ...] = ()) -> None:
        self.message = message or self.message
        self.details = details[:MAX_DETAILS]
        super().__init__(self.message)


class Unprocessable(RuntallyError):
    """What was sent can be read, and breaks a constraint."""

    @classmethod
    def at(cls, path: str, why: str) -> Self:
        """Return the error of one field."""
        return cls(why, details=(Detail(path, why),))


class InvalidJson(RuntallyError):
    code = "invalid_json"
    message = "Send a JSON object, encoded as UTF-8."


class InvalidOtlp(RuntallyError):
    code = "invalid_otlp"
    message = (
        "The body is not the OTLP that its Content-Type says; send what an OpenTelemetry exporter writes, as "
        "application/x-protobuf or application/json, and say in Content-Encoding if it is gzip."
    )


class UnsupportedMediaType(RuntallyError):
    code = "unsupported_media_type"
    message = "Send the body as JSON, with the header Content-Type: application/json."


class MissingProjectId(RuntallyError):
    code = "missing_project_id"
    message = "Put a projectId that is not blank into the body, for a single run as for a batch."


class InvalidPayload(Unprocessable):
    code = "invalid_payload"
    message = "Correct the fields listed in details and send the request again; nothing of it was stored."


class BatchTooLarge(Unprocessable):
    code = "batch_too_large"
    message = "Send fewer runs in one batch."


class BodyTooLarge(RuntallyError):
    code = "body_too_large"
    message = "Send a smaller body; split the batch."


class BodyTooSlow(RuntallyError):
    code = "request_timeout"
    message = "The body took too long to arrive; send it again."


class MissingKey(RuntallyError):
    code = "missing_key"
    message = "Send your key in the header Authorization: Bearer <key>."


class InvalidKey(RuntallyError):
    code = "invalid_key"
    message = "This key is wrong, expired or revoked; ask an admin for a new one."


class InvalidCredentials(InvalidKey):
    code = "invalid_credentials"
    message = "Wrong email or password. Try again, or ask an admin for a link to set a new password."


class InvalidSignature(RuntallyError):
    code = "invalid_signature"
    message = "Sign the raw body with the shared secret, and send the signature in the header x-svc-signature."


class Forbidden(RuntallyError):
    code = "forbidden"
    message = "This key may not do that; use a key of that project with the scope it needs."


class InvalidName(Unprocessable):
    code = "invalid_name"
    message = "Give a name that is not blank."


class InvalidNote(Unprocessable):
    code = "invalid_note"
    message = "Correct what is listed in details; nothing was stored."


class InvalidErasure(Unprocessable):
    code = "invalid_erasure"
    message = "Name the user whose runs are to be erased; nothing was deleted."


class InvalidBill(Unprocessable):
    code = "invalid_bill"
    message = "Give a vendor's report of usage or costs, or an amount; nothing was stored."


class InvalidRetention(Unprocessable):
    code = "invalid_retention"
    message = "Give a number of days, or keep runs for ever."


class InvalidUser(Unprocessable):
    code = "invalid_user"
    message = "Correct what is listed in details; nothing was changed."


class InvalidScope(Unprocessable):
    code = "invalid_scope"
    message = "Use scopes that exist; `runtally keys create --help` lists them."


class InvalidRange(RuntallyError):
    code = "invalid_range"
    message = "Use range=24h, 7d or 30d."


class InvalidInterval(RuntallyError):
    code = "invalid_interval"
    message = "Use interval=15m, 1h, 6h or 1d, or leave it out."


class DimensionNotTracked(Unprocessable):
    code = "dimension_not_tracked"
    message = "Too many runs would have to be read one by one: track the key of metadata, or ask for a shorter time."


class InvalidFormat(RuntallyError):
    code = "invalid_format"
    message = "Use format=svg, json or shields, or leave it out."


class InvalidFilter(RuntallyError):
    code = "invalid_filter"
    message = "Correct the filters listed in details."


class MissingExtra(RuntallyError):
    code = "extra_missing"
    message = "This needs a library that is not installed on the server."


class InvalidExport(RuntallyError):
    code = "invalid_export"
    message = "Use one of csv, jsonl and parquet."


class InvalidThresholds(Unprocessable):
    code = "invalid_thresholds"
    message = "Correct the window and the thresholds listed in details; nothing was changed."


class InvalidBudget(Unprocessable):
    code = "invalid_budget"
    message = "Correct what is listed in details; the budget stays as it was."


class InvalidAlertRule(Unprocessable):
    code = "invalid_alert_rule"
    message = "Correct what is listed in details; the rules stay as they were."


class InvalidNameRule(Unprocessable):
    code = "invalid_name_rule"
    message = "Correct what is listed in details; names are stored as before."


class InvalidTrackedKey(Unprocessable):
    code = "invalid_tracked_key"
    message = "Name a key of metadata that is not tracked yet; nothing was changed."


class InvalidAlertTarget(Unprocessable):
    code = "invalid_alert_target"
    message = "Correct where alerts go; nothing was changed."


class InvalidPrice(Unprocessable):
    code = "invalid_price"
    message = "Correct what is listed in details; no price was changed."


class OverlappingPrice(InvalidPrice):
    """A price conflicts with another one; `entry_id` is that one."""

    code = "overlapping_price"
    message = "Another price is in force for the same name at the same time; end it first, or choose other times."

    def __init__(self, message: str, *, entry_id: int, details: tuple[Detail, ...] = ()) -> None:
        super().__init__(message, details=details)
        self.entry_id = entry_id


class ProjectNotInferred(RuntallyError):
    code = "project_not_inferred"
    message = "Say which project: add projectId=<project>, or aggregate=1 with an admin key."


class RateLimited(RuntallyError):
    code = "rate_limited"
    message = "Wait for as many seconds as the header Retry-After says, then send the request again."

    def __init__(self, message: str | None = None, *, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class TooManyDownloads(RateLimited):
    message = "This server writes as many files as it can at once: try again in a moment."

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, retry_after_seconds=10)


class PasswordsBusy(RuntallyError):
    code = "passwords_busy"
    message = "The server checks many passwords right now. Wait a few seconds, then try again."
    retry_after_seconds = 2


class NotConfigured(RuntallyError):
    code = "not_configured"
    message = "This endpoint needs a secret that the server was not given; ask its operator to set it."


class StoreUnavailable(RuntallyError):
    code = "store_unavailable"
    message = "The database is out of reach. What was sent may or may not have been stored; send it again with the same runId."
    reason = "check its URL, and that the server runs and lets this machine in"
    """What the operator should do, as the rest of a sentence; clients do not see it."""
    cell: str | None = None
    """The cell whose database it is, of several; empty for the database of control. None until that is known."""


class QueryTooSlow(RuntallyError):
    code = "query_too_slow"
    message = "This takes too long to read, so it was stopped. Choose a shorter time, or group and filter by fewer dimensions."


class StoreBusy(StoreUnavailable):
    code = "overloaded"
    message = "More runs arrive than can be stored; nothing of this request was, so send it again after a pause."


class CellRequired(RuntallyError):
    code = "cell_required"
    message = "There are several cells: name a project, or one of them with cell=<name>."


class UnknownCell(RuntallyError):
    code = "unknown_cell"
    message = "There is no cell of this name; `runtally cells list` lists them."


class WrongCell(StoreUnavailable):
    code = "wrong_cell"
    message = "A URL of CELL_URLS leads to the database of another cell; correct it."


class AwaitedCell(StoreUnavailable):
    code = "awaited_cell"
    message = "This cell was not added yet; its operator runs `runtally cells add`."


class PendingCell(StoreUnavailable):
    code = "pending_cell"
    message = "This cell does not have this version's tables yet; its operator runs `runtally migrate`."
    reason = "run `runtally migrate`"


class NoOpenCell(StoreUnavailable):
    code = "no_open_cell"
    message = "No cell takes new projects; ask the operator to open one with `runtally cells open`."


class ReceiverUnavailable(RuntallyError):
    code = "receiver_unavailable"
    message = "Nobody takes runs at SERVICE_SYNC_URL; check that it is right, and that the server there runs."


class CatalogueUnreadable(RuntallyError):
    code = "catalogue_unreadable"
    message = (
        f"The price catalogue cannot be read; run `{REPAIR_COMMAND}`, and look into the log if that does not help."
    )


class NotFound(RuntallyError):
    code = "not_found"
    message = "No page, project or run is at this address; check the path and the id."


NO_PROJECT = "There is no such project. A project appears with its first run; check the id that it is sent."


class Conflict(RuntallyError):
    """What was to be made or changed is something else than its sender saw; `current` is what is there now."""

    code = "conflict"
    message = "This was changed or made meanwhile: look at `current`, then send it again with its version."
    current: object = None


class InvalidLink(NotFound):
    code = "invalid_link"
    message = "It was used before, has expired, or is mistyped. Ask an admin for a new one."


class UnknownExperiment(NotFound):
    code = "unknown_experiment"
    message = (
        "There is no verdict: check the experiment's id, add project=<project> where several projects have it and "
        "token=<token> where it is private, and see that it has runs enough."
    )


class ArchiveError(RuntallyError):
    """The archive of old runs cannot be used."""

    code = "archive_error"
    message = "The archive of older runs cannot be used; `runtally archive verify` says why."


class ArchiveUnavailable(ArchiveError):
    code = "archive_unavailable"
    message = "The store of ARCHIVE_URL does not answer; check the URL, and that this machine reaches it."


class ForeignArchive(ArchiveError):
    code = "foreign_archive"
    message = (
        "ARCHIVE_URL has the archive of another installation, where nothing was written; set it to one of its own."
    )


class ArchiveNotFound(ArchiveError):
    code = "archive_not_found"
    message = "ARCHIVE_URL has no archive, though files are listed: correct the URL, or mount the disk."


class DamagedArchive(ArchiveError):
    code = "damaged_archive"
    message = "A file of the archive is missing or was changed; `runtally archive verify` names it."


class ArchiveTooLarge(ArchiveError):
    code = "archive_too_large"
    message = "This needs too many archived runs. Choose a shorter time range."


class ArchiveBusy(ArchiveError):
    code = "archive_busy"
    message = "The archive is busy. Try again in a moment."


class ArchiveNotRead(DimensionNotTracked):
    code = "archive_not_read"
    message = "The answer needs archived runs, which cannot be read."


class ArchiveMissing(ArchiveError):
    code = "archive_missing"
    message = (
        "Runs of this installation are archived, but ARCHIVE_URL is not set here: set it as where they were, or run "
        "`runtally archive stop` to drop runs without archiving them."
    )


class InvalidBackup(RuntallyError):
    code = "invalid_backup"
    message = "This file is no backup that can be restored."


class DatabaseNotEmpty(RuntallyError):
    code = "database_not_empty"
    message = "The database is not empty; restore into a new one."


class SettingsError(RuntallyError):
    code = "invalid_settings"
    message = "A setting is wrong."
