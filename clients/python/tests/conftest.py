"""A receiver, and a client that begins anew in each test."""

import atexit
import gc
from collections.abc import Iterator

import pytest

import runtally_client
from runtally_client import _sdks
from runtally_client._sender import Sender
from tests.receiver import Receiver, running_receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def begins_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A client that was not set up, without settings of the machine, and nothing of it left afterwards."""
    for name in ("URL", "API_KEY", "PROJECT", "DISABLED"):
        monkeypatch.delenv(f"RUNTALLY_{name}", raising=False)
    monkeypatch.setattr(runtally_client, "_active", None)
    monkeypatch.setattr(runtally_client, "_metadata", {})
    monkeypatch.setattr(runtally_client, "_is_warned", False)
    yield
    _sdks.uninstrument(())
    sender: Sender | None = runtally_client._active  # noqa: SLF001
    if sender:
        sender.close()
        atexit.unregister(sender.close)
        _end(sender)
    gc.collect()


def _end(sender: Sender) -> None:
    """Wait for its thread, which goes on trying where `close` has waited long enough, and so into the next test."""
    thread = sender._thread  # noqa: SLF001
    if thread:
        with sender._changed:  # noqa: SLF001
            sender._is_closing = True  # noqa: SLF001
            sender._changed.notify_all()  # noqa: SLF001
        thread.join(60)
        assert not thread.is_alive()
