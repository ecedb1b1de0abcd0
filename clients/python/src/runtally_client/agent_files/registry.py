"""The agents whose files are read, and those whose files are no use, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runtally_client.agent_files import (
    claude_code,
    cline,
    codex,
    copilot,
    gemini,
    kimi,
    openclaw,
    opencode,
    openhands,
    pi,
    qwen,
    vibe,
)  # fmt: skip
from runtally_client.agent_files.reading import Agent, Home, Notes, Run

AGENTS = (
    Agent(claude_code.NAME, "Claude Code", claude_code.read),
    Agent(codex.NAME, "Codex", codex.read),
    Agent(gemini.NAME, "Gemini CLI", gemini.read),
    Agent(qwen.NAME, "Qwen Code", qwen.read),
    Agent(copilot.NAME, "Copilot CLI", copilot.read),
    Agent(opencode.NAME, "opencode", opencode.read),
    Agent(opencode.KILO, "Kilo CLI", opencode.read_kilo),
    Agent(kimi.NAME, "Kimi Code", kimi.read),
    Agent(cline.NAME, "Cline CLI", cline.read),
    Agent(vibe.NAME, "Mistral Vibe", vibe.read),
    Agent(openhands.NAME, "OpenHands", openhands.read),
    Agent(pi.NAME, "pi", pi.read),
    Agent(openclaw.NAME, "OpenClaw", openclaw.read),
)
UNFIT = {
    "aider": "the counts of its streamed calls are its own estimates; use LiteLLM's callback or a proxy",
    "continue": "its files have no times, and no cached tokens of OpenAI's models; use a proxy",
}


def read(home: Home, notes: Notes, names: Iterable[str] = ()) -> Iterator[Run]:
    """Yield the calls of the named agents, or of all that have files in the home."""
    wanted = set(names)
    for agent in AGENTS:
        if not wanted or agent.name in wanted:
            files, has_calls = notes.files, False
            for run in agent.read(home, notes):
                has_calls = True
                yield run
            if notes.files > files and not has_calls:
                number = f"{notes.files - files:,} in all"
                notes.leave_out(
                    f"no call is in the files of {agent.title}, {number}: another version may write them otherwise"
                )
