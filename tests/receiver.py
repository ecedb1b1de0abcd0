"""A server that takes documents as a test asks: it answers, refuses, or keeps the caller waiting."""

import gzip
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Reply = int | bytes | None
"""A status, the body of a 200, or None for never."""


def ok(_document: dict[str, Any]) -> Reply:
    return 200


def refuse(status: int) -> Callable[[dict[str, Any]], Reply]:
    """The same status for everybody."""
    return lambda _document: status


class Receiver:
    """What arrived, and what is answered: `reply` may be changed at any time.

    Unless it `takes_batches` it is one that does not know them yet, and answers 422.
    """

    def __init__(self) -> None:
        self.reply: Callable[[dict[str, Any]], Reply] = ok
        self.takes_batches = False
        self.batches: list[int] = []
        """How many documents each batch had, taken or not."""
        self.retry_after: str | None = None
        self.documents: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.most_at_once = 0
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.url = ""
        self._at_once = 0

    @property
    def runs(self) -> Counter[str]:
        """How often each run arrived."""
        return Counter(document["id"] for document in self.documents)

    def take(self, body: bytes, headers: dict[str, str]) -> Reply:
        with self.lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self.bodies.append(body)
            self.headers.append(headers)
            document = json.loads(body)
            if "documents" in document:
                self.batches.append(len(document["documents"]))
        try:
            reply = self._reply_to_batch(document["documents"]) if "documents" in document else self._reply_to(document)
            if reply is None:
                self.ended.wait()
            return reply
        finally:
            with self.lock:
                self._at_once -= 1

    def _reply_to(self, document: dict[str, Any]) -> Reply:
        with self.lock:
            self.documents.append(document)
        return self.reply(document)

    def _reply_to_batch(self, documents: list[dict[str, Any]]) -> Reply:
        """As the service does: a document that is refused is one of the results, whatever else is the whole answer."""
        if not self.takes_batches:
            return 422
        results = []
        for document in documents:
            reply = self._reply_to(document)
            if reply not in {200, 422}:
                return reply
            about = {"applied": True} if reply == 200 else {"error": {"code": "invalid_payload", "message": "No."}}
            results.append({"id": document["id"], **about})
        return json.dumps({"ok": True, "results": results}).encode()


@contextmanager
def running_receiver(certificate: Path | None = None) -> Iterator[Receiver]:
    """On 127.0.0.1; with a certificate it speaks HTTPS."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers["Content-Encoding"] == "gzip":
                body = gzip.decompress(body)
            reply = receiver.take(body, {name.lower(): value for name, value in self.headers.items()})
            if reply is None:
                self.close_connection = True
                return
            status, answer = (200, reply) if isinstance(reply, bytes) else (reply, b'{"ok": true}')
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            if receiver.retry_after is not None:
                self.send_header("Retry-After", receiver.retry_after)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A relay that was killed leaves broken connections."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if certificate:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificate)
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        receiver.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            receiver.ended.set()
            server.shutdown()
            thread.join()
