"""The client with the SDKs that it instruments, in old and new versions, each set in an environment of its own.

`drive.py` makes the calls there; what has to be stored of each stands here. `NEWEST=1` takes what is newest today instead of
what is locked.
"""

import json
import os
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clients.environments import make_environment
from clients.python.tests.pythons import find_python
from runtally.db.database import Database
from tests.fake_provider import CANARY, Provider, running_provider
from tests.guides import code_in
from tests.serving import Server

HERE = Path(__file__).parent
CLIENT = HERE.parent
ENVIRONMENTS = {
    # What drives them, and a Python that had them when they were new.
    "oldest": ("3.9", ["openai", "anthropic", "google.genai"]),
    "middle": (None, ["openai", "anthropic", "google.genai"]),
    "newest": (None, ["openai", "anthropic", "google.genai"]),
    "litellm-oldest": (None, ["litellm"]),
    "litellm-newest": (None, ["litellm"]),
    "frameworks-oldest": (None, ["langchain_openai", "agents"]),
    "frameworks-newest": (None, ["langchain_openai", "agents"]),
}

TOKENS = {"input_tokens": 1200, "output_tokens": 350}
CACHED = TOKENS | {"cached_input_tokens": 1000}
OPENAI = {"provider": "openai", "model": "gpt-4o-mini", "status": "success"}
CHAT = OPENAI | CACHED | {"reasoning_tokens": 200}
UNKNOWN = {"input_tokens": None, "output_tokens": None}
CLAUDE = {"provider": "anthropic", "model": "claude-sonnet-4-5", "status": "success"} | CACHED
GEMINI = {"provider": "google", "model": "gemini-2.5-flash", "status": "success"} | CACHED
FAILED = {"status": "error", "error_code": "InternalServerError"} | UNKNOWN
CUT = {"status": "error", "error_code": "stream_cut"} | UNKNOWN
TIMED_OUT = {"status": "timeout"}
EMBEDDING = {"provider": "openai", "model": "text-embedding-3-small", "input_tokens": 8}

EXPECTED: dict[str, dict[str, Any]] = {
    "openai chat": CHAT,
    "openai tools": CHAT,
    "openai raw": CHAT,
    "openai stream": CHAT,
    "openai raw stream": CHAT,
    "openai streaming response": CHAT,
    "openai stream asked for usage": CHAT,
    "openai stream without usage": OPENAI | UNKNOWN,
    "openai closed stream": OPENAI | UNKNOWN | {"finish_reason": "cancelled"},
    "openai embeddings": EMBEDDING,
    "openai retried": CHAT,
    "openai 429": OPENAI | FAILED | {"error_code": "RateLimitError"},
    "openai 500": OPENAI | FAILED,
    "openai timeout": OPENAI | TIMED_OUT,
    "openai cut stream": OPENAI | {"status": "error"} | UNKNOWN,
    "openai short stream": OPENAI | CUT,
    "openai stream of groq": CHAT,
    "openai stream of llama.cpp": OPENAI | CACHED,
    "openai without usage": OPENAI | UNKNOWN,
    "openrouter": CHAT | {"reported_cost_usd": 0.0123},
    "azure": CHAT | {"provider": "azure", "model": "my-deployment-2024-07-18"},
    "a server of one's own": CHAT | {"provider": "ollama"},
    "openai in run": CHAT | {"model": "named-by-hand"},
    "openai image": {"model": "dall-e-3", "units": {"images": 2}} | UNKNOWN,
    "openai image by tokens": {"model": "gpt-image-1", "input_tokens": 7, "output_tokens": 4003, "units": None},
    "openai transcription": {"model": "whisper-1", "units": {"audioSeconds": 12.5}} | UNKNOWN,
    "openai speech": {"model": "tts-1", "units": {"characters": len(CANARY)}} | UNKNOWN,
    "openai responses": CHAT,
    "openai responses stream": CHAT,
    "openai short responses stream": OPENAI | CUT,
    "openai responses helper": CHAT,
    "openai chat helper": CHAT,
    "openai compaction": CHAT,
    "openai beta response": CHAT,
    "openai decision": CHAT | {"provider": "openai-decisions"},
    "openai async chat": CHAT,
    "openai async stream without usage": OPENAI | UNKNOWN,
    "openai async 500": OPENAI | FAILED,
    "openai async timeout": OPENAI | TIMED_OUT,
    "openai async stream cancelled": OPENAI | UNKNOWN | {"finish_reason": "cancelled"},
    "openai async cancelled": OPENAI | {"status": "error", "error_code": "CancelledError"},
    "openai async at once": CHAT | {"runs": 5},
    "anthropic messages": CLAUDE,
    "anthropic tools": CLAUDE,
    "anthropic advisor": CACHED | {"provider": "anthropic", "runs": 2},
    "anthropic stream": CLAUDE,
    "anthropic short stream": CLAUDE | {"status": "error", "error_code": "stream_cut", "output_tokens": 1},
    "anthropic helper": CLAUDE,
    "anthropic 429": CLAUDE | FAILED | {"error_code": "RateLimitError", "cached_input_tokens": None},
    "anthropic 500": CLAUDE | FAILED | {"cached_input_tokens": None},
    "anthropic timeout": CLAUDE | TIMED_OUT | UNKNOWN | {"cached_input_tokens": None},
    "anthropic async messages": CLAUDE,
    "anthropic async helper": CLAUDE,
    "gemini content": GEMINI,
    "gemini flex": GEMINI | {"service_tier": "flex"},
    "gemini stream": GEMINI,
    "gemini short stream": GEMINI | {"status": "error", "error_code": "stream_cut", "output_tokens": 201},
    "gemini chat": GEMINI,
    "gemini 500": GEMINI | UNKNOWN | {"status": "error", "error_code": "ServerError", "cached_input_tokens": None},
    "openai realtime": OPENAI
    | CACHED
    | {"model": "gpt-realtime", "audio_input_tokens": 300, "finish_reason": "completed"},
    "gemini live": GEMINI | {"runs": 2},
    "gemini interaction": GEMINI | {"reasoning_tokens": 200},
    "gemini interaction stream": GEMINI | {"reasoning_tokens": 200},
    "gemini async interaction": GEMINI | {"reasoning_tokens": 200},
    "gemini async content": GEMINI,
    "gemini async stream": GEMINI,
    "litellm completion": OPENAI | CACHED,
    "litellm stream": OPENAI | TOKENS,
    "litellm anthropic": CLAUDE,
    "litellm embedding": EMBEDDING,
    "litellm 500": OPENAI | FAILED,
    "litellm before the cache": OPENAI | CACHED,
    "litellm cache hit": OPENAI | {"input_tokens": 0, "output_tokens": 0},
    "litellm async completion": OPENAI | CACHED,
    "litellm async timeout": OPENAI | {"status": "timeout", "error_code": "Timeout"},
    "langchain invoke": OPENAI | TOKENS,
    "langchain without its handler": CHAT,
    "langchain batch": OPENAI | TOKENS | {"runs": 3},
    "langchain before the cache": OPENAI | TOKENS,
    "langchain cache hit": OPENAI | {"input_tokens": 0, "output_tokens": 0},
    "langchain 500": OPENAI | {"status": "error"} | UNKNOWN,
    "langchain async invoke": OPENAI | TOKENS,
    "agents responses": OPENAI | TOKENS,
    "agents responses 500": OPENAI | FAILED,
    "agents chat_completions": OPENAI | TOKENS,
    "agents chat_completions 500": OPENAI | FAILED,
}
"""What is stored of each case: one run with these values, or as many as it says."""


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def variables(provider: Provider, server: Server, project_id: str) -> dict[str, str]:
    """The environment of the driving process."""
    return {
        **os.environ,
        "CANARY": CANARY,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENAI_API_KEY": "x",
        "PROVIDER_URL": provider.url,
        "PYTHONPATH": str(CLIENT / "src"),
        "RUNTALLY_API_KEY": server.ingest_key,
        "RUNTALLY_PROJECT": project_id,
        "RUNTALLY_URL": server.url,
    }


@pytest.mark.parametrize("name", ENVIRONMENTS)
async def test_each_call_is_one_run_with_what_it_cost_and_nothing_of_what_it_said(
    name: str, variables: dict[str, str], database: Database, project_id: str, tmp_path: Path
) -> None:
    if os.environ.get("SHORT") and not name.endswith("newest"):
        pytest.skip("the short round has the newest alone")
    python = prepare(name, tmp_path)
    arguments = [str(HERE / "drive.py"), *ENVIRONMENTS[name][1]]
    driving = await create_subprocess_exec(python, *arguments, env=variables, stdout=PIPE, stderr=PIPE)
    out, err = await driving.communicate()
    assert driving.returncode == 0, (out + err).decode()
    cases = json.loads(out.splitlines()[-1])

    stored = await stored_by_case(database, project_id)
    wrong = [case for case in cases if not matches(stored[case], EXPECTED[case])]
    assert {case: [shown(run, case) for run in stored[case]] for case in wrong} == {}
    assert set(stored) == set(cases)
    assert CANARY not in json.dumps(stored)


async def test_the_guide_shows_how_to_instrument(
    variables: dict[str, str], provider: Provider, database: Database, project_id: str, tmp_path: Path
) -> None:
    (program,) = (block for block in code_in("sending.md", "python") if "openai" in block)
    python = prepare("newest", tmp_path)
    env = variables | {"OPENAI_BASE_URL": provider.openai()}
    running = await create_subprocess_exec(python, "-c", program, env=env, stdout=PIPE, stderr=PIPE)
    out, err = await running.communicate()
    assert running.returncode == 0, (out + err).decode()

    stored = await stored_by_case(database, project_id)
    assert matches(stored[None], CHAT)


async def stored_by_case(database: Database, project_id: str) -> dict[str | None, list[dict[str, Any]]]:
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT * FROM runs WHERE project_id = $1", project_id)
    stored: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        # Amounts are as exact as they are printed.
        stored[row["experiment_id"] or row["user_id"]].append(json.loads(json.dumps(dict(row), default=str)))
    return stored


def matches(runs: list[dict[str, Any]], expected: dict[str, Any]) -> bool:
    values = {name: value for name, value in expected.items() if name not in ("runs", "reported_cost_usd")}
    has_cost = all(float(run["reported_cost_usd"] or 0) >= expected.get("reported_cost_usd", 0) for run in runs)
    return len(runs) == expected.get("runs", 1) and has_cost and all(run.items() >= values.items() for run in runs)


def shown(run: dict[str, Any], case: str) -> dict[str, Any]:
    """Leave of a stored run what its case is about."""
    return {name: run[name] for name in (*EXPECTED[case], "error_code", "metadata") if name in run}


def prepare(name: str, folder: Path) -> Path:
    """Make the environment, with a Python of its time where there is one."""
    version, _modules = ENVIRONMENTS[name]
    python = (version and find_python(version)) or sys.executable
    return make_environment(HERE / "environments", name, folder / "environment", python)
