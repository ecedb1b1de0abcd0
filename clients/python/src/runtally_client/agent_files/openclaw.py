"""OpenClaw, made from pi: the lines of pi's sessions are rows of a SQLite database, those above a kilobyte packed by zstd."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Callable

from runtally_client.agent_files import pi, reading
from runtally_client.agent_files.reading import Home, Notes, Run

NAME = "openclaw"
_EVENTS = "SELECT session_id, event_json, event_zstd, navigation_json FROM transcript_events ORDER BY session_id, seq"


def read(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield the calls of all agents' sessions."""
    seen: set[str] = set()
    for path in reading.files(
        home.folder(".openclaw", "OPENCLAW_STATE_DIR") / "agents", "openclaw-agent.sqlite", notes
    ):
        for events in _sessions(path, notes):
            for run in pi.calls(NAME, events, seen):
                notes.cannot_know("OpenClaw keeps no latency, no reasoning of Gemini and no failed calls")
                yield run


def _sessions(path: Path, notes: Notes) -> Iterable[list[dict[str, Any]]]:
    import sqlite3

    unpack = _unpacker()
    sessions: dict[str, list[dict[str, Any]]] = {}
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            for session, text, packed, about in connection.execute(_EVENTS):
                if packed and not unpack:
                    if '"role":"assistant"' in str(about):
                        notes.leave_out(
                            "a call of OpenClaw with a long answer is packed: `pip install zstandard`, or Python 3.14, reads it"
                        )
                    continue
                try:
                    event = json.loads(unpack(packed) if packed and unpack else text)
                except Exception:  # noqa: BLE001  # Each library has an error of its own.
                    notes.leave_out(f"an event in {path} is no JSON")
                    continue
                if isinstance(event, dict):
                    sessions.setdefault(session, []).append(event)
        finally:
            connection.close()
    except sqlite3.Error as error:
        notes.leave_out(f"{path} could not be read ({error})")
    return sessions.values()


def _unpacker() -> Callable[[bytes], bytes] | None:
    """Return what unpacks zstd: of Python 3.14, or of a package that is there."""
    import importlib

    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        try:
            unpack: Callable[[bytes], bytes] = importlib.import_module(name).decompress
        except ImportError:
            continue
        return unpack
    return None
