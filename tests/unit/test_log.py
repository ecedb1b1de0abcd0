"""Log lines: what is left out of them."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.typing import EventDict

from runtally import log
from runtally.errors import NotFound
from runtally.settings import LogFormat

CANARY = "canary-c0de"


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """The error after it was raised, with a traceback."""
    try:
        raise error from cause
    except type(error) as caught:
        return caught


def test_values_under_secret_names_are_redacted() -> None:
    event: EventDict = {"event": "x", "authorization": CANARY, "prompt": CANARY, "status": 200}

    assert log.redact(None, "info", event) == {
        "event": "x",
        "authorization": "[redacted]",
        "prompt": "[redacted]",
        "status": 200,
    }


def test_an_exception_is_logged_by_class_and_frames_without_its_message() -> None:
    event = log.without_messages(None, "error", {"event": "x", "exc_info": raised(ValueError(CANARY))})

    assert "exc_info" not in event
    assert event["exception"].endswith("builtins.ValueError")
    assert "in raised" in event["exception"]
    assert CANARY not in event["exception"]


def test_causes_come_first_and_keep_silent_as_well() -> None:
    text = log.described(raised(ValueError(CANARY), raised(KeyError(CANARY))))

    assert text.index("builtins.KeyError") < text.index("builtins.ValueError")
    assert CANARY not in text


@pytest.mark.parametrize("error", [NotFound("No such thing."), ConnectionRefusedError(111, "Connection refused")])
def test_messages_of_ours_and_of_the_system_are_logged(error: Exception) -> None:
    assert log.described(raised(error)).endswith(str(error))


def test_the_exception_being_handled_is_meant_by_true() -> None:
    try:
        int(CANARY)
    except ValueError:
        told = [log.without_messages(None, "error", {"exc_info": info}) for info in (True, sys.exc_info())]

    assert told[0] == told[1]
    assert told[0]["exception"].endswith("ValueError")


def test_a_false_exc_info_tells_nothing() -> None:
    assert log.without_messages(None, "error", {"event": "x", "exc_info": False}) == {"event": "x"}


@pytest.mark.parametrize(("logger", "kept"), [("asyncio", "Task failed"), ("other", f"Task failed\n{CANARY}")])
def test_messages_of_asyncio_are_cut_after_the_first_line(logger: str, kept: str) -> None:
    record = logging.LogRecord(logger, logging.ERROR, "", 0, "", (), None)

    event = log.first_line(None, "error", {"event": f"Task failed\n{CANARY}", "_record": record})

    assert event["event"] == kept


def test_the_line_of_a_request_is_written_from_the_level_of_the_log_on(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_direct_from", logging.INFO)

    log.request_id.set("one")
    log.write_request(logging.DEBUG, status=200)
    log.write_request(logging.INFO, status=200)

    (line,) = map(json.loads, capsysbinary.readouterr().err.splitlines())
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "request", "level": "info", "request_id": "one", "status": 200}


@pytest.mark.skipif(sys.platform != "linux", reason="the device is one of Linux")
@pytest.mark.parametrize("log_format", LogFormat)
def test_a_log_on_a_full_disk_stops_nothing(log_format: LogFormat) -> None:
    program = (
        "import logging, structlog; from runtally import log; from runtally.settings import LogFormat, LogLevel\n"
        f"log.set_up(LogFormat('{log_format}'), LogLevel.INFO)\n"
        "structlog.get_logger().warning('x'); log.write_request(logging.INFO, status=200); logging.warning('y')\n"
        "print('went on')"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=full, check=False)  # noqa: S603  # Ours.

    assert done.stdout == b"went on\n"
