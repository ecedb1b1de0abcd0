"""A first request with a key, in three languages, to be pasted. Pure."""

import json
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlencode

from runtally.access.scopes import Scope
from webapp.first_run import EXAMPLE, first_run_command


@dataclass(frozen=True, slots=True)
class Snippet:
    id: str
    language: str
    text: str


def snippets(server_url: str, key: str, project_id: str, scopes: Collection[str]) -> tuple[Snippet, ...]:
    """What the key is for: reading the metrics if it may, else sending a run."""
    if Scope.METRICS_READ in scopes:
        url = f"{server_url}/api/metrics?{urlencode({'projectId': project_id, 'range': '7d'})}"
        curl = f"curl {shlex.quote(url)} \\\n  -H {shlex.quote(f'Authorization: Bearer {key}')}"
        return _all(curl, url, key, None)
    return _all(
        first_run_command(server_url, key, project_id),
        f"{server_url}/api/ingest",
        key,
        {"projectId": project_id, **EXAMPLE},
    )


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
