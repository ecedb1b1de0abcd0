"""What docs/opentelemetry.md shows, run as it stands there with the packages that it is for, each call one run."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from clients.environments import make_environment, npm
from tests.fake_provider import CANARY, Provider, running_provider
from tests.serving import Server

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs" / "opentelemetry.md"
CHAT = f'OpenAI().chat.completions.create(model="gpt-4o-mini", messages=[{{"role": "user", "content": "{CANARY}"}}])'


class Call(NamedTuple):
    """What a reader's own program does after the code of the guide."""

    program: str
    environment: str = "python"
    has_setup: bool = False
    """Whether it does without the setup of OpenTelemetry's SDK."""


PYTHON = {
    "openllmetry": Call(f"from openai import OpenAI\n{CHAT}"),
    "openinference": Call(f"from openai import OpenAI\n{CHAT}"),
    "langchain": Call(f'from langchain_openai import ChatOpenAI\nChatOpenAI(model="gpt-4o-mini").invoke("{CANARY}")'),
    "llama-index": Call(
        "import os\nfrom llama_index.llms.openai import OpenAI\n"
        f'OpenAI(model="gpt-4o-mini", api_base=os.environ["OPENAI_BASE_URL"]).complete("{CANARY}")',
        environment="llama-index",
    ),
    "agents": Call(
        f'from agents import Agent, Runner\nRunner.run_sync(Agent(name="agent", model="gpt-4o-mini"), "{CANARY}")'
    ),
    "openlit": Call(f"from openai import OpenAI\n{CHAT}", environment="openlit", has_setup=True),
    "pydantic-ai": Call(
        f'from pydantic_ai import Agent\nAgent("openai-chat:gpt-4o-mini").run_sync("{CANARY}")', has_setup=True
    ),
    "litellm": Call(
        f'litellm.completion(model="gpt-4o-mini", messages=[{{"role": "user", "content": "{CANARY}"}}])',
        has_setup=True,
    ),
    "langfuse": Call(f"from langfuse.openai import OpenAI\n{CHAT}", has_setup=True),
}
JAVASCRIPT = {
    "openinference": "await new OpenAI().chat.completions.create({ model: 'gpt-4o-mini', "
    f"messages: [{{ role: 'user', content: '{CANARY}' }}] }});",
    "ai": "const [{ openai }, { generateText }] = await Promise.all([import('@ai-sdk/openai'), import('ai')]);"
    f"await generateText({{ model: openai.chat('gpt-4o-mini'), prompt: '{CANARY}' }});",
}


def shown(name: str, language: str) -> str:
    """Return the code of this name in the guide; of what needs none, nothing."""
    found = re.search(rf"<!-- tested: {name} -->\n\n```{language}\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return found[1] if found else ""


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The Python of each environment, when it was asked for once."""
    folder = tmp_path_factory.mktemp("environments")
    names = ("python", "llama-index", "openlit")
    return {name: make_environment(HERE / "environments", name, folder / name) for name in names}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the packages of npm."""
    folder = tmp_path_factory.mktemp("javascript")
    for path in HERE.glob("package*.json"):
        shutil.copy(path, folder)
    npm("ci", cwd=folder)
    return folder


@pytest.fixture
def variables(provider: Provider, dev_server: Server, project_id: str) -> dict[str, str]:
    """What the guide says to set, and where the SDKs find the provider."""
    headers = f"Authorization=Bearer%20{dev_server.ingest_key}"
    return {
        **os.environ,
        "LANGFUSE_BASE_URL": dev_server.url,
        "LANGFUSE_PUBLIC_KEY": project_id,
        "LANGFUSE_SECRET_KEY": dev_server.ingest_key,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENAI_API_KEY": "x",
        "OPENAI_BASE_URL": provider.openai(),
        "OTEL_ENDPOINT": f"{dev_server.url}/v1/traces",
        "OTEL_EXPORTER": "otlp_http",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"{dev_server.url}/api/otlp/p/{project_id}",
        "OTEL_EXPORTER_OTLP_HEADERS": headers,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_HEADERS": f"{headers},X-Runtally-Project={project_id}",
    }


@pytest.mark.parametrize("name", PYTHON)
def test_a_call_in_python_is_one_run(
    name: str, environments: dict[str, Path], variables: dict[str, str], project_id: str
) -> None:
    call = PYTHON[name]
    setup = "" if call.has_setup else shown("setup", "python")
    program = f"{setup}\n{shown(name, 'python')}\n{call.program}"
    run(str(environments[call.environment]), "-c", program, env=variables)

    is_one_run(variables["LANGFUSE_BASE_URL"], project_id)


@pytest.mark.parametrize("other", ["openinference", "openllmetry"])
def test_a_streamed_call_through_langfuse_that_another_instrumentation_sees_is_one_run(
    other: str, environments: dict[str, Path], variables: dict[str, str], project_id: str
) -> None:
    streamed = CHAT.removesuffix(")") + ', stream=True, stream_options={"include_usage": True})'
    program = f"from langfuse.openai import OpenAI\n{shown(other, 'python')}\nlist({streamed})"
    run(str(environments["python"]), "-c", program, env=variables)

    is_one_run(variables["LANGFUSE_BASE_URL"], project_id)


@pytest.mark.parametrize("name", JAVASCRIPT)
def test_a_call_in_javascript_is_one_run(name: str, packages: Path, variables: dict[str, str], project_id: str) -> None:
    program = f"{shown(name, 'javascript')}\n{JAVASCRIPT[name]}\nawait sdk.shutdown();"
    run("node", "--input-type=module", "--eval", program, cwd=packages, env=variables)

    is_one_run(variables["LANGFUSE_BASE_URL"], project_id)


def test_each_piece_of_the_guide_is_run() -> None:
    named = set(re.findall(r"<!-- tested: (\S+) -->", GUIDE.read_text()))
    assert named == {"setup", *PYTHON, *JAVASCRIPT} - {"langfuse"}


def is_one_run(url: str, project_id: str) -> None:
    text = httpx.get(f"{url}/runs/export.jsonl", params={"project": project_id}).text
    (stored,) = (json.loads(line) for line in text.splitlines())
    assert stored["provider"] == "openai"
    assert stored["model"].startswith("gpt-4o-mini")
    assert (stored["input_tokens"], stored["output_tokens"], stored["cached_input_tokens"]) == (1200, 350, 1000)
    assert CANARY not in text


def run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-20_000:]
