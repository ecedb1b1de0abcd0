"""How files of agents are read: where they are, line by line, and what a call in them becomes. Nothing here writes."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import marshal
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, NamedTuple

Run = dict[str, Any]
"""A call in the fields of a run, as `POST /api/ingest` takes it."""

MAX_LINE_BYTES = 64_000_000
MAX_FILE_BYTES = 256_000_000
"""Of a file that has to be read whole."""
MAX_COUNT = 2**53
_LATEST_SECONDS = 1e11
"""Of a moment, which later is one in milliseconds."""
_CHUNK = 1 << 20
_DECODER = json.JSONDecoder()
_WORTH_A_PROCESS = 10_000_000
"""How many bytes take longer to read than a process takes to begin."""

# Of the model's name, where the agent names a provider of the user's own making or none.
_PROVIDERS = (
    (re.compile(r"((us|eu|apac|global)\.)?(anthropic|amazon|meta|cohere|mistral)\."), "aws"),
    (re.compile(r"claude"), "anthropic"),
    (re.compile(r"(gpt-|chatgpt-|o\d(-|$)|codex-)"), "openai"),
    (re.compile(r"(gemini|gemma)-"), "google"),
    (re.compile(r"(mistral|ministral|magistral|codestral|devstral)-"), "mistral"),
    (re.compile(r"qwen|coder-model"), "alibaba"),
    (re.compile(r"deepseek"), "deepseek"),
    (re.compile(r"grok-"), "x-ai"),
    (re.compile(r"kimi-"), "moonshotai"),
    (re.compile(r"glm-"), "zai"),
    (re.compile(r"minimax-"), "minimax"),
)
_MOMENT = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z"
)
# Names of agents for "any server with this interface" and for a server on the same machine: they name nobody.
_NOBODY = frozenset({"", "other", "custom", "openai-compatible", "openai-compat", "fake", "local"})


class Home:
    """A person's home folder, and where the agents keep their files in it."""

    def __init__(self, path: Path | None = None, processes: int = 1, *, compactions: bool = False) -> None:
        """Name the home, how many processes may read large folders in it, and whether compactions are worked out from sums."""
        self.compactions = compactions
        self.path = path or Path.home()
        self.processes = processes if hasattr(os, "fork") else 1
        self._environment = {} if path else os.environ

    def folder(self, usual: str, variable: str = "") -> Path:
        """Return the folder that the agent's variable names, or the usual one below the home; a named home has no variables."""
        named = self._environment.get(variable)
        return Path(named) if named else self.path / usual


class Notes:
    """What was left out while files were read, counted by reason, and what their agents do not keep."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self.unknown: dict[str, None] = {}
        self.files = 0
        """How many files there were to read."""

    def leave_out(self, why: str) -> None:
        self.left_out[why] += 1

    def cannot_know(self, what: str) -> None:
        self.unknown[what] = None


def each(
    home: Home, paths: Iterable[Path], found_in: Callable[[Path, Notes], list[Any]], notes: Notes
) -> Iterator[list[Any]]:
    """Yield what is found in each file, in their order. Where the home allows it, processes share the files of large folders."""
    paths = list(paths)
    shares = _shares(paths, home.processes)
    children = [_read_apart(share, found_in) for share in shares[1:]]
    found = {path: found_in(path, notes) for path in shares[0]}
    for share, (child, pipe) in zip(shares[1:], children):
        with os.fdopen(pipe, "rb") as answer:
            text = answer.read()
        os.waitpid(child, 0)
        try:
            lists, left_out, unknown = marshal.loads(text)  # noqa: S302  # Written by the child.
        except (ValueError, EOFError, TypeError):  # It was killed, so its files are read here.
            lists, left_out, unknown = [found_in(path, notes) for path in share], {}, ()
        found.update(zip(share, lists))
        notes.left_out.update(left_out)
        notes.unknown.update(dict.fromkeys(unknown))
    for path in paths:
        yield found.pop(path)


def _shares(paths: list[Path], processes: int) -> list[list[Path]]:
    """Split files in parts of about the same size, the largest file first; a single part if that would not pay."""
    sizes = {path: _size(path) for path in paths} if processes > 1 else {}
    if sum(sizes.values()) < _WORTH_A_PROCESS:
        return [paths]
    shares: list[list[Path]] = [[] for _ in range(processes)]
    filled = [0] * processes
    for path in sorted(paths, key=sizes.__getitem__, reverse=True):
        least = filled.index(min(filled))
        shares[least].append(path)
        filled[least] += sizes[path]
    return shares


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read_apart(paths: list[Path], found_in: Callable[[Path, Notes], list[Any]]) -> tuple[int, int]:
    """Read files in a process of its own; return its id, and the end of the pipe on which it answers."""
    answer, ask = os.pipe()
    child = os.fork()
    if child:
        os.close(ask)
        return child, answer
    try:
        notes = Notes()
        lists = [found_in(path, notes) for path in paths]
        with os.fdopen(ask, "wb") as pipe:
            pipe.write(marshal.dumps((lists, dict(notes.left_out), list(notes.unknown))))
    finally:
        os._exit(0)  # Not by the way of the parent, whose exit this is not.


class Agent(NamedTuple):
    """An agent whose files are read: its name, which its telemetry has too, and the function that yields its calls."""

    name: str
    title: str
    read: Callable[[Home, Notes], Iterator[Run]]


def files(folder: Path, pattern: str, notes: Notes) -> Iterator[Path]:
    """Yield the files below a folder in order of their names; what may not be read is noted."""

    def note(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            notes.leave_out(f"{error.filename} could not be read ({error.strerror})")

    found = (
        Path(place, name)
        for place, _, names in os.walk(folder, onerror=note)
        for name in fnmatch.filter(names, pattern)
    )
    for path in sorted(path for path in found if path.is_file()):
        notes.files += 1
        yield path


def lines(
    path: Path, notes: Notes, *marks: bytes, cut: Callable[[bytes], bytes | None] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the objects of the lines that hold one of the marks, or of the part that `cut` leaves of a line, if any.

    A last line without its end is one that the agent is still writing, and is left for the next time if it is no JSON yet.
    """
    try:
        with path.open("rb", _CHUNK) as file:
            while line := file.readline(MAX_LINE_BYTES):
                if cut:
                    kept = cut(line)
                    if kept is None:
                        continue
                    found = _object(kept) or _object(line)
                elif any(mark in line for mark in marks):
                    found = _object(line)
                else:
                    continue
                if found is not None:
                    yield found
                elif line.endswith(b"\n") or len(line) == MAX_LINE_BYTES:
                    notes.leave_out(f"a line of {path} is no JSON, or longer than {MAX_LINE_BYTES // 1_000_000} MB")
    except OSError as error:
        notes.leave_out(f"{path} could not be read ({error.strerror})")


def document(path: Path, notes: Notes) -> dict[str, Any]:
    """Return the object that a file holds; an empty one, with a note, where it holds none."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            notes.leave_out(f"{path} is larger than {MAX_FILE_BYTES // 1_000_000} MB")
            return {}
        found = _object(path.read_bytes())
    except OSError as error:
        notes.leave_out(f"{path} could not be read ({error.strerror})")
        return {}
    if found is None:
        notes.leave_out(f"{path} is no JSON, or is being written")
    return found or {}


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        decoded = text.decode().strip()
        found, end = _DECODER.raw_decode(decoded)  # A third faster than `json.loads`, which looks for encodings first.
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and end == len(decoded) else None


# Values ---------------------------------------------------------------------------------------------------------------------


def part(value: Any, *names: str) -> dict[str, Any]:
    """Return the object under these names, one inside the other; an empty one where something else is there."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def count(values: dict[str, Any], *names: str) -> int:
    """Return the first count that is there under one of the names; 0 where there is none."""
    for name in names:
        value = values.get(name)
        if type(value) is int and 0 <= value < MAX_COUNT:
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < MAX_COUNT:
            return int(value)
    return 0


def text(values: dict[str, Any], *names: str) -> str | None:
    """Return the first short text that is there under one of the names: a name or an id, never a text of a person's."""
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and 0 < len(value.strip()) <= 256 and "\n" not in value:
            return value.strip()
    return None


def seconds(value: Any) -> float | None:
    """Return a moment in Unix seconds: a text of ISO 8601 with its zone, or a number of seconds or milliseconds."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        at = value / 1000 if value > _LATEST_SECONDS else float(value)
        return at if 0 <= at < _LATEST_SECONDS else None
    try:
        # Older Pythons read no Z.
        moment = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", str(value)).replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def moment(value: Any) -> str | None:
    """Return a moment as a run has it, whether it is a text, which mostly is so already, or a number of seconds."""
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        return value
    at = seconds(value)
    if at is None:
        return None
    return datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def run_id(agent: str, *key: object) -> str:
    """Make the id of a run from what names the call in the agent's file, so that reading again adds nothing."""
    return hashlib.sha256("\0".join([agent, *map(str, key)]).encode()).hexdigest()


def provider_of(named: str | None, model: str, otherwise: str = "unknown") -> str:
    """Return the provider that an agent names, or the one whose name the model's begins with."""
    if named and named.lower() not in _NOBODY:
        return named.lower()
    return next((provider for pattern, provider in _PROVIDERS if pattern.match(model.lower())), otherwise)


def repository(cwd: Any) -> str | None:
    """Return the last part of the folder that an agent worked in."""
    return re.split(r"[\\/]", cwd.rstrip("\\/"))[-1][:128] or None if isinstance(cwd, str) else None


def call(  # noqa: PLR0913  # Each argument is a field of a run.
    agent: str,
    key: tuple[object, ...],
    at: float,
    model: str,
    provider: str,
    *,
    session: str | None,
    metadata: dict[str, Any],
    tokens: dict[str, int] | None = None,
    units: dict[str, int] | None = None,
    error: str | None = None,
    latency: float | None = None,
    first_token: float | None = None,
    **fields: Any,
) -> Run:
    """Build a run: `at` is its start in Unix seconds, `latency` and `first_token` are milliseconds.

    `tokens` has the counts of the run's fields, in which the whole holds its parts. Parts that are 0 are left out, as are
    empty values.
    """
    run: Run = {
        "runId": run_id(agent, *key),
        "provider": provider,
        "model": model,
        "timestamp": moment(max(at, 0.0)),
        "status": "error" if error else "success",
    }
    optional = {
        "errorCode": error,
        **{name: value for name, value in (tokens or {}).items() if value or name in ("inputTokens", "outputTokens")},
        "units": {name: value for name, value in (units or {}).items() if value},
        "latencyMs": None if latency is None else round(latency),
        "timeToFirstTokenMs": None if first_token is None else round(first_token),
        "sessionId": session,
        **fields,
        "metadata": {"agent": agent, **{name: value for name, value in metadata.items() if value not in (None, "")}},
    }
    run.update((name, value) for name, value in optional.items() if value not in (None, "", {}))
    return run
