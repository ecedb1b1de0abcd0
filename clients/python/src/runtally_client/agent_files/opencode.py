"""opencode and Kilo, made from it: an assistant's message in the SQLite database is a call; a fork copies them under new ids.

`output` is without reasoning, `input` without the cache. The call that finds a title is stored nowhere, nor are failed
ones, and the time until a message was completed includes its tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runtally_client.agent_files import reading
from runtally_client.agent_files.reading import Home, Notes, Run, count, part, text

NAME = "opencode"
KILO = "kilo"
_SESSIONS = "SELECT id, parent_id, version, directory FROM session"
_MESSAGES = "SELECT session_id, data FROM message WHERE data LIKE '%\"assistant\"%' ORDER BY time_created, id"


def read(home: Home, notes: Notes, agent: str = NAME) -> Iterator[Run]:
    """Yield the calls of all sessions, those of subagents under the session of their parent."""
    folder = home.folder(".local/share", "XDG_DATA_HOME") / agent
    seen: set[str] = set()
    for path in reading.files(folder, f"{agent}*.db", notes):
        for run in _of_file(path, agent, notes):
            if run["runId"] not in seen:
                seen.add(run["runId"])
                yield run


def read_kilo(home: Home, notes: Notes) -> Iterator[Run]:
    """Yield the calls of Kilo's sessions."""
    return read(home, notes, KILO)


def _of_file(path: Path, agent: str, notes: Notes) -> Iterator[Run]:
    import sqlite3

    try:
        # Read-only: what the agent has written since is in the log beside the file, which is read with it.
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            sessions = {row[0]: row[1:] for row in connection.execute(_SESSIONS)}
            rows = connection.execute(_MESSAGES).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        notes.leave_out(f"{path} could not be read ({error})")
        return
    if rows:
        notes.cannot_know(f"{agent} keeps no latency, no failed calls and not the call that finds a title")
    for session, data in rows:
        try:
            message = json.loads(data)
        except ValueError:
            notes.leave_out(f"a message in {path} is no JSON")
            continue
        run = _run(agent, session, message, sessions) if isinstance(message, dict) else None
        if run:
            yield run


def _run(agent: str, session: str, message: dict[str, Any], sessions: dict[str, tuple[Any, ...]]) -> Run | None:
    tokens, time = part(message, "tokens"), part(message, "time")
    cache = part(tokens, "cache")
    at, model = reading.seconds(time.get("created")), text(message, "modelID")
    read_, written = count(cache, "read"), count(cache, "write")
    given, answered = count(tokens, "input") + read_ + written, count(tokens, "output") + count(tokens, "reasoning")
    if message.get("role") != "assistant" or at is None or not model or not (given or answered):
        return None  # Not answered, or not yet.
    root, parents = session, set()
    while root not in parents and (parent := sessions.get(root, (None,))[0]):
        parents.add(root)
        root = parent
    version, folder = (*sessions.get(session, (None, None, None)),)[1:3]
    return reading.call(
        agent,
        (time.get("created"), model, given, answered, read_, written),
        at,
        model,
        reading.provider_of(text(message, "providerID"), model),
        session=root,
        traceId=session,  # The session in telemetry, by which the server finds this call when that comes, too.
        metadata={
            "agentVersion": version,
            "repo": reading.repository(folder),
            "agentName": text(message, "agent") if root != session else None,
            "thread": session if root != session else None,
            "reportedCostUSD": message.get("cost") or None,
        },
        tokens={
            "inputTokens": given,
            "cachedInputTokens": read_,
            "cacheWriteTokens": written,
            "outputTokens": answered,
            "reasoningTokens": count(tokens, "reasoning"),
        },
    )
