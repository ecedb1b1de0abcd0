"""The socket that the service listens on."""

import socket
import sys

import pytest

from tests.serving import settings_for
from webapp.cli.serve import STUCK_MS, listening
from webapp.server import lingering


@pytest.mark.skipif(sys.platform != "linux", reason="the option is one of Linux")
def test_the_system_closes_connections_of_clients_that_read_nothing() -> None:
    with (
        listening(settings_for("postgresql://nowhere", port=0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == STUCK_MS
    assert lingering.PATIENCE_SECONDS * 1000 < STUCK_MS
