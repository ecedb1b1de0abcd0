"""Slack, Discord, Teams and PagerDuty as far as webhooks go: they check messages by their own rules, and keep those they take.

They serve HTTPS under the vendors' names, which `resolving` makes this machine answer to. Their certificate, `vendors.pem`, is
made by nobody but `openssl req -x509`: a client that trusts it says so with SSL_CERT_FILE.
"""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

CERTIFICATE = Path(__file__).with_name("vendors.pem")
SLACK_PATH = "/services/T0001/B0001/slack-secret-of-24-chars"
DISCORD_PATH = "/api/webhooks/1234567890/discord-secret_of_the-tests"
PAGERDUTY_KEY = "e93facc04764012d7bfb002500d5d1a6"
WORKFLOW_PATH = "/powerautomate/automations/direct/workflows/b840/triggers/manual/paths/invoke"
WORKFLOW_KEY = "workflow-signature-of-the-tests"
CONNECTOR_PATH = "/webhookb2/0001@0002/IncomingWebhook/connector-secret/0003"
SEVERITIES = {"critical", "error", "warning", "info"}
Answer = tuple[int, str]


class Vendors:
    """What was taken, by host; `removed` holds the hosts whose webhook is gone."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.taken: dict[str, list[dict[str, Any]]] = {}
        self.removed: set[str] = set()

    @property
    def slack(self) -> str:
        return f"https://hooks.slack.com:{self.port}{SLACK_PATH}"

    @property
    def discord(self) -> str:
        return f"https://discord.com:{self.port}{DISCORD_PATH}"

    @property
    def pagerduty(self) -> str:
        return f"https://events.eu.pagerduty.com:{self.port}/v2/enqueue?routing_key={PAGERDUTY_KEY}"

    @property
    def workflow(self) -> str:
        host = f"default0001.00.environment.api.powerplatform.com:{self.port}"
        return f"https://{host}{WORKFLOW_PATH}?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig={WORKFLOW_KEY}"

    @property
    def connector(self) -> str:
        return f"https://acme.webhook.office.com:{self.port}{CONNECTOR_PATH}"

    def answer(self, host: str, path: str, content_type: str, body: bytes) -> Answer:
        """Answer as the vendor of this host does, and keep what it takes."""
        judge = next(judge for end, judge in JUDGES.items() if host.endswith(end))
        if content_type != "application/json":
            return 415, ""
        message = json.loads(body)
        status, said, is_taken = judge(path, message, host in self.removed)
        if is_taken:
            self.taken.setdefault(host, []).append(message)
        return status, said


def _slack(path: str, message: dict[str, Any], is_removed: bool) -> tuple[int, str, bool]:
    if is_removed or path != SLACK_PATH:
        return 404, "no_service", False
    if not message.get("text"):
        return 400, "no_text", False
    for block in message.get("blocks", []):
        limit = {"header": 150, "section": 3000}.get(block["type"])
        text = block.get("text", {})
        kinds = {"plain_text"} if block["type"] == "header" else {"plain_text", "mrkdwn"}
        if limit is None or text.get("type") not in kinds or not 1 <= len(text.get("text", "")) <= limit:
            return 400, "invalid_blocks", False
    return 200, "ok", True


def _discord(path: str, message: dict[str, Any], is_removed: bool) -> tuple[int, str, bool]:
    address, query = urlsplit(path).path, parse_qs(urlsplit(path).query)
    if is_removed:
        return 404, '{"message": "Unknown Webhook", "code": 10015}', False
    if address != DISCORD_PATH:
        return 401, '{"message": "Invalid Webhook Token", "code": 50027}', False
    content, embeds = message.get("content", ""), message.get("embeds", [])
    if not content and not embeds:
        return 400, '{"message": "Cannot send an empty message", "code": 50006}', False
    is_long = any(len(one.get("title", "")) > 256 or len(one.get("description", "")) > 4096 for one in embeds)
    if len(content) > 2000 or len(embeds) > 10 or is_long:
        return 400, '{"message": "Invalid Form Body", "code": 50035}', False
    return (200, '{"id": "1"}', True) if query.get("wait") == ["true"] else (204, "", True)


def _pagerduty(path: str, event: dict[str, Any], is_removed: bool) -> tuple[int, str, bool]:
    invalid = (400, '{"status": "invalid event", "message": "Event object is invalid", "errors": []}', False)
    payload = event.get("payload", {})
    if path != "/v2/enqueue":
        return 404, "", False
    if is_removed or event.get("routing_key") != PAGERDUTY_KEY:
        return invalid
    if event.get("event_action") == "resolve":
        return (202, '{"status": "success"}', True) if event.get("dedup_key") else invalid
    is_whole = 1 <= len(payload.get("summary", "")) <= 1024 and payload.get("source")
    if event.get("event_action") != "trigger" or not is_whole or payload.get("severity") not in SEVERITIES:
        return invalid
    return 202, '{"status": "success", "message": "Event processed"}', True


def _is_card(message: dict[str, Any]) -> bool:
    [attachment] = message.get("attachments", [{}])
    card = attachment.get("content", {})
    return (
        message.get("type") == "message"
        and attachment.get("contentType") == "application/vnd.microsoft.card.adaptive"
        and (card.get("type"), card.get("version")) == ("AdaptiveCard", "1.4")
        and bool(card.get("body"))
        and len(json.dumps(message)) <= 28 * 1024
    )


def _workflow(path: str, message: dict[str, Any], is_removed: bool) -> tuple[int, str, bool]:
    if is_removed or urlsplit(path).path != WORKFLOW_PATH:
        return 404, '{"error": {"code": "WorkflowNotFound"}}', False
    if parse_qs(urlsplit(path).query).get("sig") != [WORKFLOW_KEY]:
        return 401, '{"error": {"code": "AuthorizationFailed"}}', False
    return (202, "", True) if _is_card(message) else (400, "{}", False)


def _connector(path: str, message: dict[str, Any], is_removed: bool) -> tuple[int, str, bool]:
    if is_removed or path != CONNECTOR_PATH or not _is_card(message):
        return (
            200,
            "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 404",
            False,
        )
    return 200, "1", True


JUDGES: dict[str, Callable[[str, dict[str, Any], bool], tuple[int, str, bool]]] = {
    "hooks.slack.com": _slack,
    "discord.com": _discord,
    ".pagerduty.com": _pagerduty,
    ".api.powerplatform.com": _workflow,
    ".webhook.office.com": _connector,
}


@contextmanager
def running_vendors(monkeypatch: pytest.MonkeyPatch) -> Iterator[Vendors]:
    """Run them on a free port, trust their certificate, and lead their names to this machine."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        _Handler.vendors = vendors = Vendors(server.server_address[1])
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        _lead_here(monkeypatch)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield vendors
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    vendors: Vendors
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        host = self.headers["Host"].partition(":")[0]
        status, said = self.vendors.answer(host, self.path, self.headers["Content-Type"], body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said.encode())

    def log_message(self, *_: object) -> None:
        """Tests look at what was taken."""


def _lead_here(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = socket.getaddrinfo

    def resolve(host: str | bytes, *rest: Any, **named: Any) -> Any:  # noqa: ANN401  # As the library has it.
        name = host.decode() if isinstance(host, bytes) else host
        return asked("127.0.0.1" if name.endswith(tuple(JUDGES)) else host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
