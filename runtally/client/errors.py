"""Errors of clients of the service; none of them becomes an HTTP response."""

from runtally.errors import RuntallyError
from runtally.files import START_COMMAND


class ServerUnreachable(RuntallyError):
    code = "server_unreachable"
    message = f"The server does not answer; start it with `{START_COMMAND}`, or say where it is with --url."


class RequestRefused(RuntallyError):
    code = "request_refused"
    message = "The server refused the request."


class GaveUp(RuntallyError):
    code = "gave_up"
    message = "The server stayed out of reach; run the same command again, which skips what it has stored."


class InvalidMapping(RuntallyError):
    code = "invalid_mapping"
    message = "A mapping is wrong."


class UnreadableFile(RuntallyError):
    code = "unreadable_file"
    message = "The file cannot be read."
