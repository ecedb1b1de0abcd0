"""The shell command that posts a first run."""

import json
import shlex

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
