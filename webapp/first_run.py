"""Shell commands that send first runs: one that posts a run, and the variables of OpenTelemetry."""

import json
import shlex
from urllib.parse import quote

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
