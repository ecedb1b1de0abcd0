"""What to paste to use a key: a first request in three languages, and the settings of each way to send runs. Pure."""

import json
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from runtally.access.scopes import Scope
from webapp.first_run import EXAMPLE, first_run_command


@dataclass(frozen=True, slots=True)
class Snippet:
    id: str
    language: str
    text: str
    place: str = ""
    """The file that the text belongs in, if it is not a command or a program."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to send runs: what it is for, and what to paste."""

    id: str
    name: str
    about: str
    snippets: tuple[Snippet, ...]
    note: str = ""


def ways_to_send(server_url: str, key: str, project_id: str, *, names_project: bool) -> tuple[Way, ...]:
    """Return each way, with this key. With `names_project` OTLP sends the project along, as a shared key opens all."""
    curl, python, typescript = snippets(server_url, key, project_id, (Scope.RUNS_WRITE,))
    endpoint = f"{server_url}/api/otlp/p/{quote(project_id, safe='')}" if names_project else server_url
    return (
        Way("curl", "curl", "Post one run from a terminal. Any HTTP client works the same way.", (curl,)),
        Way("python", "Python", "Post one run with the standard library alone.", (python,), _RECORDER),
        Way("typescript", "TypeScript", "Post one run with fetch, in Node, Deno or Bun.", (typescript,), _RECORDER),
        _litellm(endpoint, key),
        _opentelemetry(endpoint, key),
        _agents(endpoint, key),
    )


_RECORDER = "For production, copy the recorder from docs/sending.md: it sends in the background, tries again, and never fails your call."
_NO_CONTENT = "Prompts and completions are dropped on arrival; these settings keep most of them from being sent at all."


def _litellm(endpoint: str, key: str) -> Way:
    environment = {
        "OTEL_EXPORTER": "otlp_http",
        "OTEL_ENDPOINT": f"{endpoint}/v1/traces",
        "OTEL_HEADERS": _header(key),
    }
    sdk = 'import litellm\n\nlitellm.callbacks = ["otel"]\nlitellm.turn_off_message_logging = True'
    proxy = "litellm_settings:\n  callbacks: [otel]\n  turn_off_message_logging: true"
    return Way(
        "litellm",
        "LiteLLM",
        "Set these variables, and switch the callback on in the SDK or in the proxy.",
        (
            Snippet("litellm-environment", "Environment", _exports(environment)),
            Snippet("litellm-sdk", "SDK", sdk),
            Snippet("litellm-proxy", "Proxy", proxy, "config.yaml"),
        ),
        _NO_CONTENT,
    )


def _opentelemetry(endpoint: str, key: str) -> Way:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": _header(key),
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    collector = "\n".join(
        (
            "exporters:",
            "  otlphttp/runtally:",
            f"    endpoint: {json.dumps(endpoint)}",
            f"    headers: {{ Authorization: {json.dumps(f'Bearer {key}')} }}",
        )
    )
    return Way(
        "opentelemetry",
        "OpenTelemetry",
        "Any instrumentation of LLM calls, such as OpenLLMetry, OpenInference or Logfire, reads these variables.",
        (
            Snippet("opentelemetry-environment", "Environment", _exports(environment)),
            Snippet("opentelemetry-collector", "Collector", collector, "collector.yaml"),
        ),
        "Each call of a model becomes a run; other spans are not kept.",
    )


def _agents(endpoint: str, key: str) -> Way:
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
    return Way(
        "agents",
        "Coding agents",
        "Each call that the agent makes is a run, with its session and who ran it.",
        (
            Snippet("claude-code", "Claude Code", json.dumps(claude_code, indent=2), "~/.claude/settings.json"),
            Snippet("codex", "Codex", codex, "~/.codex/config.toml"),
            Snippet("gemini", "Gemini CLI", json.dumps(gemini, indent=2), "~/.gemini/settings.json"),
            Snippet(
                "gemini-environment",
                "Gemini CLI's environment",
                _exports({"OTEL_EXPORTER_OTLP_HEADERS": f"Authorization={bearer}"}),
            ),
        ),
    )


def _header(key: str) -> str:
    """Return the header as variables of OpenTelemetry have it: percent-encoded."""
    return f"Authorization=Bearer%20{quote(key, safe='')}"


def _exports(environment: Mapping[str, str]) -> str:
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in environment.items())


def snippets(server_url: str, key: str, project_id: str, scopes: Collection[str]) -> tuple[Snippet, ...]:
    """Return requests for what the key is for: sending a run, else reading the metrics. To read runs is for pages alone."""
    if Scope.RUNS_WRITE in scopes:
        command = first_run_command(server_url, key, project_id)
        return _all(command, f"{server_url}/api/ingest", key, {"projectId": project_id, **EXAMPLE})
    if Scope.METRICS_READ in scopes:
        url = f"{server_url}/api/metrics?{urlencode({'projectId': project_id, 'range': '7d'})}"
        curl = f"curl {shlex.quote(url)} \\\n  -H {shlex.quote(f'Authorization: Bearer {key}')}"
        return _all(curl, url, key, None)
    return ()


def _all(curl: str, url: str, key: str, body: dict[str, object] | None) -> tuple[Snippet, ...]:
    return (
        Snippet("curl", "curl", curl),
        Snippet("python", "Python", _python(url, key, body)),
        Snippet("typescript", "TypeScript", _typescript(url, key, body)),
    )


def _python(url: str, key: str, body: dict[str, object] | None) -> str:
    """With the standard library alone, so that it works as pasted."""
    headers = {"Authorization": f"Bearer {key}"} | ({"Content-Type": "application/json"} if body else {})
    lines = ["import json", "from urllib.request import Request, urlopen", "", "request = Request("]
    lines.append(f"    {json.dumps(url)},")
    if body:
        lines.append(f"    data=json.dumps({json.dumps(body)}).encode(),")
    lines += [f"    headers={json.dumps(headers)},", ")", "with urlopen(request) as response:"]
    return "\n".join([*lines, "    print(json.load(response))"])


def _typescript(url: str, key: str, body: dict[str, object] | None) -> str:
    lines = [f"const response = await fetch({json.dumps(url)}, {{"]
    if body:
        lines.append('  method: "POST",')
    lines.append("  headers: {")
    lines.append(f"    Authorization: {json.dumps(f'Bearer {key}')},")
    if body:
        lines.append('    "Content-Type": "application/json",')
    lines.append("  },")
    if body:
        lines.append(f"  body: JSON.stringify({json.dumps(body)}),")
    return "\n".join([*lines, "});", "console.log(await response.json());"])
