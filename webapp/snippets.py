"""Snippets to paste: a first request in three languages, and the settings of each way to send runs. Pure."""

import json
import shlex
from collections.abc import Collection, Mapping
from urllib.parse import quote, urlencode

from msgspec import Struct

from runtally import PYTHON_CLIENT, TYPESCRIPT_CLIENT
from runtally.access.scopes import Scope

EXAMPLE_PROJECT = "my-project"
EXAMPLE = {
    "provider": "openai",
    "model": "gpt-4o-mini",
    "inputTokens": 1200,
    "outputTokens": 350,
    "latencyMs": 840,
}


def first_run_command(url: str, key: str | None, project_id: str) -> str:
    """Return a curl command; without a key it uses INGEST_API_KEY of the shell."""
    authorization = shlex.quote(f"Authorization: Bearer {key}") if key else '"Authorization: Bearer $INGEST_API_KEY"'
    body = shlex.quote(json.dumps({"projectId": project_id, **EXAMPLE}))
    return " \\\n  ".join(
        (
            f"curl {shlex.quote(f'{url}/api/ingest')}",
            f"-H {authorization}",
            "-H 'Content-Type: application/json'",
            f"-d {body}",
        )
    )


def otlp_header(key: str) -> str:
    """Return the header as variables of OpenTelemetry have it: percent-encoded."""
    return f"Authorization=Bearer%20{quote(key, safe='')}"


def otlp_variables(url: str, key: str | None) -> str:
    """Return the two variables that let OpenTelemetry send here; without a key they use INGEST_API_KEY of the shell."""
    header = shlex.quote(otlp_header(key)) if key else '"Authorization=Bearer%20$INGEST_API_KEY"'
    return f"export OTEL_EXPORTER_OTLP_ENDPOINT={shlex.quote(url)}\nexport OTEL_EXPORTER_OTLP_HEADERS={header}"


class Snippet(Struct, frozen=True):
    id: str
    language: str
    text: str
    place: str = ""
    """The file that the text belongs in, or the programs whose environment it is, if it is not a command or a program."""


class SetupGuide(Struct, frozen=True):
    """A way to send runs: its purpose, and what to paste."""

    id: str
    name: str
    about: str
    guide: str
    section: str
    """The guide, and its section, that say more."""
    snippets: tuple[Snippet, ...]
    note: str = ""


def ways_to_send(
    server_url: str, key: str, project_id: str, *, names_project: bool, clients: Collection[str] = ()
) -> tuple[SetupGuide, ...]:
    """Return each way, with this key; `clients` are the packages that the server serves. With `names_project` OTLP sends the project along, as a shared key opens all."""
    curl, python, typescript = snippets(server_url, key, project_id, (Scope.RUNS_WRITE,))
    endpoint = f"{server_url}/api/otlp/p/{quote(project_id, safe='')}" if names_project else server_url
    return (
        SetupGuide(
            "curl",
            "curl",
            "Post one run from a terminal. Any HTTP client works the same way.",
            "sending",
            "in-any-language",
            (curl,),
        ),
        SetupGuide(
            "python",
            "Python",
            "Record each call of OpenAI's, Anthropic's and Google's SDKs and of LiteLLM. The last line sends a first run.",
            "sending",
            "python",
            (_install("python", "pip install", server_url, PYTHON_CLIENT, clients), python),
            _ABOUT_CLIENT if PYTHON_CLIENT in clients else f"{_BUILT} {_ABOUT_CLIENT}",
        ),
        SetupGuide(
            "typescript",
            "TypeScript",
            "Record each call of OpenAI's and Anthropic's SDKs and of the AI SDK, in Node, Deno, Bun and at the edge. "
            "The last line sends a first run.",
            "sending",
            "typescript",
            (_install("typescript", "npm install", server_url, TYPESCRIPT_CLIENT, clients), typescript),
            _ABOUT_CLIENT if TYPESCRIPT_CLIENT in clients else f"{_BUILT} {_ABOUT_CLIENT}",
        ),
        _litellm(endpoint, key),
        _langfuse(server_url, key, project_id),
        _opentelemetry(endpoint, key),
        _agents(endpoint, key),
    )


def _install(id_: str, command: str, server_url: str, name: str, clients: Collection[str]) -> Snippet:
    """Return the command that installs a client from this server, or from a checkout where the server has none."""
    place = shlex.quote(f"{server_url}/clients/{name}") if name in clients else f"dist/{name}"
    return Snippet(f"{id_}-install", "Install", f"{command} {place}")


_BUILT = "`make clients` builds the package in a checkout of Runtally."
_ABOUT_CLIENT = "It has no dependencies, sends in the background, and never fails your call."
_NO_CONTENT = "Prompts and completions are dropped on arrival; these settings keep most of them from being sent at all."


def _litellm(endpoint: str, key: str) -> SetupGuide:
    environment = {
        "OTEL_EXPORTER": "otlp_http",
        "OTEL_ENDPOINT": f"{endpoint}/v1/traces",
        "OTEL_HEADERS": otlp_header(key),
    }
    sdk = 'import litellm\n\nlitellm.callbacks = ["otel"]\nlitellm.turn_off_message_logging = True'
    proxy = "litellm_settings:\n  callbacks: [otel]\n  turn_off_message_logging: true"
    return SetupGuide(
        "litellm",
        "LiteLLM",
        "Set these variables, and switch the callback on in the SDK or in the proxy.",
        "opentelemetry",
        "litellm",
        (
            Snippet("litellm-environment", "Environment", _exports(environment)),
            Snippet("litellm-sdk", "SDK", sdk),
            Snippet("litellm-proxy", "Proxy", proxy, "config.yaml"),
        ),
        _NO_CONTENT,
    )


def _langfuse(server_url: str, key: str, project_id: str) -> SetupGuide:
    environment = {
        "LANGFUSE_BASE_URL": server_url,
        "LANGFUSE_HOST": server_url,
        "LANGFUSE_PUBLIC_KEY": project_id,
        "LANGFUSE_SECRET_KEY": key,
    }
    return SetupGuide(
        "langfuse",
        "Langfuse",
        "Programs with Langfuse's SDK, from version 3 on, keep their code and take these variables.",
        "opentelemetry",
        "langfuse",
        (Snippet("langfuse-environment", "Environment", _exports(environment)),),
        "LANGFUSE_HOST is for version 3. Each call of a model becomes a run; prompts, scores and other spans are not kept.",
    )


def _opentelemetry(endpoint: str, key: str) -> SetupGuide:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": otlp_header(key),
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    collector = "\n".join(
        (
            "exporters:",
            "  otlp_http/runtally: # Before version 0.144: otlphttp/runtally",
            f"    endpoint: {json.dumps(endpoint)}",
            f"    headers: {{ Authorization: {json.dumps(f'Bearer {key}')} }}",
        )
    )
    return SetupGuide(
        "opentelemetry",
        "OpenTelemetry",
        "Any instrumentation of LLM calls, such as OpenLLMetry, OpenInference or Logfire, reads these variables.",
        "opentelemetry",
        "clients",
        (
            Snippet("opentelemetry-environment", "Environment", _exports(environment)),
            Snippet("opentelemetry-ai-sdk", "Vercel AI SDK 7", _AI_SDK, "instrumentation.ts"),
            Snippet("opentelemetry-collector", "Collector", collector, "collector.yaml"),
        ),
        "Each call of a model becomes a run; other spans are not kept.",
    )


_AI_SDK = """import { OpenTelemetry } from "@ai-sdk/otel";
import { NodeSDK } from "@opentelemetry/sdk-node";
import { registerTelemetry } from "ai";

new NodeSDK().start();
registerTelemetry(new OpenTelemetry({ usage: true, providerMetadata: true }));"""


def _agents(endpoint: str, key: str) -> SetupGuide:
    bearer = f"Bearer {key}"
    claude_code = {
        "env": {
            "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
            "OTEL_LOGS_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
            "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization={bearer}",
        }
    }
    # A string of JSON is one of TOML as well.
    exporter = (
        f'endpoint = {json.dumps(f"{endpoint}/v1/logs")}, protocol = "binary", '
        f'headers = {{ "Authorization" = {json.dumps(bearer)} }}'
    )
    codex = f'[otel]\nexporter = {{ otlp-http = {{ {exporter} }} }}\nmetrics_exporter = "none"\nlog_user_prompt = false'
    gemini = {
        "telemetry": {
            "enabled": True,
            "target": "local",
            "otlpProtocol": "http",
            "otlpEndpoint": endpoint,
            "logPrompts": False,
        }
    }
    opencode = {"experimental": {"openTelemetry": True}}
    return SetupGuide(
        "agents",
        "Coding agents",
        "Each call that the agent makes is a run, with its session and who ran it.",
        "agents",
        "setup",
        (
            Snippet("claude-code", "Claude Code", json.dumps(claude_code, indent=2), "~/.claude/settings.json"),
            Snippet("codex", "Codex", codex, "~/.codex/config.toml"),
            Snippet("gemini", "Gemini CLI", json.dumps(gemini, indent=2), "~/.gemini/settings.json"),
            Snippet("qwen", "Qwen Code", json.dumps(gemini, indent=2), "~/.qwen/settings.json"),
            Snippet("opencode", "opencode", json.dumps(opencode, indent=2), "~/.config/opencode/opencode.json"),
            Snippet(
                "agents-environment",
                "Environment",
                _exports(
                    {"OTEL_EXPORTER_OTLP_HEADERS": f"Authorization={bearer}", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
                ),
                "Gemini CLI, Qwen Code, opencode, Copilot CLI",
            ),
        ),
    )


def _exports(environment: Mapping[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())


def snippets(server_url: str, key: str, project_id: str, scopes: Collection[str]) -> tuple[Snippet, ...]:
    """Return requests for what the key is for: sending a run, else reading the metrics. To read runs is for pages alone."""
    if Scope.RUNS_WRITE in scopes:
        return (
            Snippet("curl", "curl", first_run_command(server_url, key, project_id)),
            Snippet("python", "Python", _python_client(server_url, key, project_id)),
            Snippet("typescript", "TypeScript", _typescript_client(server_url, key, project_id)),
        )
    if Scope.METRICS_READ in scopes:
        url = f"{server_url}/api/metrics?{urlencode({'projectId': project_id, 'range': '7d'})}"
        curl = f"curl {shlex.quote(url)} \\\n  -H {shlex.quote(f'Authorization: Bearer {key}')}"
        return (
            Snippet("curl", "curl", curl),
            Snippet("python", "Python", _python_request(url, key)),
            Snippet("typescript", "TypeScript", _typescript_request(url, key)),
        )
    return ()


def _python_client(url: str, key: str, project_id: str) -> str:
    run = ", ".join(f"{name}={json.dumps(value)}" for name, value in EXAMPLE.items())
    settings = f"{json.dumps(url)}, {json.dumps(key)}, project={json.dumps(project_id)}"
    return "\n".join(
        (
            "import runtally_client as runtally",
            "",
            f"runtally.init({settings})",
            "runtally.instrument(stream_usage=True)",
            "",
            f"runtally.record({run})",
        )
    )


def _typescript_client(url: str, key: str, project_id: str) -> str:
    settings = f"url: {json.dumps(url)}, key: {json.dumps(key)}, project: {json.dumps(project_id)}"
    return "\n".join(
        (
            'import { init, record, wrap } from "runtally";',
            "",
            f"init({{ {settings} }});",
            "// const openai = wrap(new OpenAI());",
            "",
            f"record({json.dumps(EXAMPLE)});",
        )
    )


def _python_request(url: str, key: str) -> str:
    """Return a Python program with the standard library alone, so that it works as pasted."""
    headers = json.dumps({"Authorization": f"Bearer {key}"})
    return "\n".join(
        (
            "import json",
            "from urllib.request import Request, urlopen",
            "",
            f"request = Request({json.dumps(url)}, headers={headers})",
            "with urlopen(request) as response:",
            "    print(json.load(response))",
        )
    )


def _typescript_request(url: str, key: str) -> str:
    headers = f"{{ Authorization: {json.dumps(f'Bearer {key}')} }}"
    return "\n".join(
        (
            f"const response = await fetch({json.dumps(url)}, {{ headers: {headers} }});",
            "console.log(await response.json());",
        )
    )
