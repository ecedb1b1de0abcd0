"""Send what LLM calls cost to Runtally: provider, model, tokens, times and errors, never a message or an answer.

    import runtally_client as runtally

    runtally.init()        # RUNTALLY_URL, RUNTALLY_API_KEY, RUNTALLY_PROJECT
    runtally.instrument()  # openai, anthropic, google-genai, litellm

Nothing here waits for the server, and nothing raises into the program.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from runtally_client import _sdks
from runtally_client._call import Call, context, merge, new_id, shared, traced, within_limits
from runtally_client._sender import Sender

__all__ = [
    "Call",
    "agents_processor",
    "context",
    "flush",
    "init",
    "instrument",
    "langchain_handler",
    "litellm_callback",
    "record",
    "run",
    "traced",
    "uninstrument",
]
__version__ = "0.1.0"

log = logging.getLogger("runtally")

_active: Sender | None = None
_metadata: dict[str, Any] = {}
_is_warned = False


def init(
    url: str | None = None,
    key: str | None = None,
    project: str | None = None,
    *,
    metadata: Mapping[str, Any] | None = None,
    flush_on_sigterm: bool = False,
) -> None:
    """Say where runs go. What is not given comes from RUNTALLY_URL, RUNTALLY_API_KEY and RUNTALLY_PROJECT.

    `metadata` is added to every run. `flush_on_sigterm` sends what waits before SIGTERM ends the program, for up to 2 s; call it
    in the main thread then. With RUNTALLY_DISABLED=1 nothing is recorded or sent. A second call only changes what it names.
    """
    from runtally_client._target import Target  # Not while the program starts.

    global _active  # noqa: PLW0603  # One for a process.
    if _is_disabled():
        return
    before = _active.target if _active else Target("http://127.0.0.1:8000", None, "default")
    url = url or os.environ.get("RUNTALLY_URL") or before.url
    key = key or os.environ.get("RUNTALLY_API_KEY") or before.key
    project = project or os.environ.get("RUNTALLY_PROJECT") or before.project
    try:
        target = Target(url, key, project)
    except ValueError:
        log.error("RUNTALLY_URL must be like https://runtally.example.com; nothing will be sent")  # noqa: TRY400
        return
    _metadata.update(metadata or {})
    _active = _active or Sender(target)
    _active.target = target
    if flush_on_sigterm:
        _flush_on_sigterm()


def instrument(*sdks: str, stream_usage: bool = False, providers: Mapping[str, str] | None = None) -> None:
    """Record each call of these SDKs, or of all that are known: openai, anthropic, google-genai, litellm.

    An SDK that is imported later is instrumented then. OpenAI's streams tell their tokens only if they are asked to:
    `stream_usage=True` asks, and each stream then ends with a part that has no choices. `providers` says whose server one
    is where its address does not: `{"localhost:11434": "ollama"}`.
    """
    if not _is_disabled():
        _sdks.instrument(sdks, _begin, stream_usage=stream_usage, providers=providers or {})
        if _active:
            _sdks.warn_of_opentelemetry(_active.target.parts.netloc)


def uninstrument(*sdks: str) -> None:
    """Undo `instrument`."""
    _sdks.uninstrument(sdks)


def record(**run: Any) -> None:
    """Record one run, by the names of the API. It takes microseconds: a thread sends it. Of a `runId` the first run counts."""
    _record(merge(shared(), run))


def run(provider: str, model: str, **fields: Any) -> Call:
    """Time a call: `with runtally.run("openai", "gpt-4o-mini") as run: ...; run.usage(answer.usage)`. An error is recorded, and raised."""
    return Call(_record, provider, model, **fields)


def flush(timeout: float = 5) -> bool:
    """Wait until all that was recorded is committed, and say whether it is. Needed where a process is frozen or killed."""
    return _active.flush(timeout) if _active else True


def litellm_callback() -> Any:
    """Make a callback for `litellm.callbacks`, or for `litellm_settings.callbacks` of its proxy."""
    from runtally_client.litellm import Callback

    return Callback(_begin)


def langchain_handler() -> Any:
    """Make a callback handler for LangChain."""
    from runtally_client.langchain import Handler

    return Handler(_begin)


def agents_processor() -> Any:
    """Make a trace processor for the OpenAI Agents SDK."""
    from runtally_client.agents import Processor

    return Processor(_begin)


def _begin(provider: str | None, model: str | None) -> Call:
    return Call(_record, provider, model)


def _record(run: dict[str, Any]) -> None:
    global _is_warned  # noqa: PLW0603  # Once for a process.
    try:
        if _active:
            own = {"runId": new_id(), "timestamp": datetime.now(timezone.utc).isoformat(), "metadata": _metadata}
            _active.add(within_limits(merge(own, run)))
        elif not _is_warned and not _is_disabled():
            _is_warned = True
            log.warning("Runs are recorded and not sent: call runtally_client.init() first")
    except Exception as error:  # noqa: BLE001  # The program's own call has succeeded.
        log.warning("A run was not recorded: %s", type(error).__name__)


def _is_disabled() -> bool:
    return os.environ.get("RUNTALLY_DISABLED", "").lower() in ("1", "true", "yes")


def _flush_on_sigterm() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def on_sigterm(number: int, frame: Any) -> None:
        flush(2)
        if callable(before):
            before(number, frame)
        elif before is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, on_sigterm)
