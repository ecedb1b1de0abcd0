"""What becomes of the runs of processes: at their end, after a fork, at a signal, and while the server is away."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from clients.python.tests.pythons import find_python
from tests.receiver import Receiver, refuse
from tests.serving import free_port

SOURCE = Path(__file__).parents[1] / "src"
PREAMBLE = """
import os, sys, time
import runtally_client as runtally
runtally.init(os.environ["RUNTALLY_URL"], "key", "p", flush_on_sigterm=True)

def record(name):
    runtally.record(provider="acme", model="m", runId=name)

def wait_for_a_signal():
    # One that came just before `signal.pause()` would be handled only after the next one.
    while True:
        time.sleep(0.01)
"""


# For good, so that a program that waited for a server to take runs would not end in the time that it has here.
WAITING_FOR_EVER = """
from runtally_client import _sender, _target
_sender.EXIT_SECONDS = _target.TIMEOUT_SECONDS = 3600.0
record("lost")
"""


def start(url: str, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PREAMBLE + textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "RUNTALLY_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    _out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    return err


def runs_of(receiver: Receiver) -> list[str]:
    return sorted(run["runId"] for body in receiver.bodies for run in json.loads(body)["runs"])


def test_what_waits_at_the_end_is_sent(receiver: Receiver) -> None:
    finish(start(receiver.url, "for number in range(1200): record(str(number))"))

    assert len(runs_of(receiver)) == 1200


@pytest.mark.parametrize("away", ["refuses", "is out of reach"])
def test_a_program_ends_soon_though_the_server_takes_nothing(receiver: Receiver, away: str) -> None:
    receiver.reply = refuse(503)
    url = receiver.url if away == "refuses" else f"http://127.0.0.1:{free_port()}"

    told = finish(start(url, WAITING_FOR_EVER))

    assert told == "Runtally: 1 run is lost, the program ended before the server took them\n"


def test_a_program_does_not_wait_for_a_server_that_hangs(receiver: Receiver) -> None:
    receiver.reply = lambda _document: None

    told = finish(start(receiver.url, WAITING_FOR_EVER))

    assert "the program ended" in told


def test_a_forked_child_sends_its_own_runs_and_not_those_of_its_parent(receiver: Receiver) -> None:
    program = """
    record("parent")
    if os.fork() == 0:
        record("child")
        sys.exit()
    os.wait()
    """
    finish(start(receiver.url, program))

    assert runs_of(receiver) == ["child", "parent"]


def test_workers_that_were_preloaded_send_their_runs(receiver: Receiver) -> None:
    program = """
    import multiprocessing
    fork = multiprocessing.get_context("fork")
    record("before")
    runtally.flush(10)
    workers = [fork.Process(target=record, args=(f"worker-{number}",)) for number in range(3)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    record("after")
    """
    finish(start(receiver.url, program))

    assert runs_of(receiver) == ["after", "before", "worker-0", "worker-1", "worker-2"]


def test_a_signal_ends_the_program_when_its_runs_are_sent(receiver: Receiver) -> None:
    process = start(receiver.url, "record('last'); print('ready', flush=True); wait_for_a_signal()")
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)

    finish(process, -signal.SIGTERM)
    assert runs_of(receiver) == ["last"]


def test_a_handler_of_the_program_still_sees_the_signal(receiver: Receiver) -> None:
    program = """
    import signal
    runtally._flush_on_sigterm  # It stands before whatever is there when it is asked for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    runtally.init(flush_on_sigterm=True)
    record("last"); print("ready", flush=True); wait_for_a_signal()
    """
    process = start(receiver.url, program)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)

    finish(process, 3)
    assert runs_of(receiver) == ["last"]


def test_importing_it_brings_in_nothing_that_takes_long() -> None:
    program = "import sys, runtally_client; print(*sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert {"http.client", "ssl", "email", "gzip", "asyncio", "urllib.request"}.isdisjoint(shown.stdout.split())


def test_a_module_that_a_program_only_looks_for_is_instrumented_when_it_is_imported(
    receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "openai.py").write_text("class OpenAI:\n    def request(self): ...\nclass AsyncOpenAI(OpenAI): ...\n")
    program = f"""
    import importlib.util
    runtally.instrument("openai")
    sys.path.insert(0, {str(tmp_path)!r})
    assert importlib.util.find_spec("openai")
    import openai
    assert openai.OpenAI.request.__wrapped__
    runtally.uninstrument()
    assert not hasattr(openai.OpenAI.request, "__wrapped__")
    """
    finish(start(receiver.url, program))


def test_it_works_in_the_oldest_python() -> None:
    """Where there is one: what is newer than 3.9 is a syntax or import error there."""
    python = find_python("3.9")
    if python is None:
        pytest.skip("there is no Python 3.9 on this machine")
    names = [f"runtally_client.{path.stem}" for path in SOURCE.glob("runtally_client/_*.py") if path.stem != "__init__"]
    program = f"import importlib; [importlib.import_module(name) for name in {names}]"
    subprocess.run([python, "-c", program], env={"PYTHONPATH": str(SOURCE)}, check=True)
