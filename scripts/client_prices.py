"""Write the prices of the catalogue into the Python client, for the reports that `runtally-agents` makes without a server."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
FILE = CHECKOUT / "clients" / "python" / "src" / "runtally_client" / "agent_files" / "prices.json.gz"
PROVIDERS = frozenset({
    "anthropic", "aws", "azure", "deepseek", "github-copilot", "google", "mistral", "moonshotai", "openai", "x-ai", "zai",
})  # fmt: skip
"""Those whose models coding agents call."""


def main() -> None:
    """Export the catalogue in a process of its own, and keep what a client needs."""
    export = [sys.executable, "-m", "runtally.pricing.catalogue_export"]
    lines = subprocess.run(export, cwd=CHECKOUT, capture_output=True, check=True).stdout.splitlines()
    rows = [row for row in map(json.loads, lines) if row["provider"] in PROVIDERS]
    kept = [{name: value for name, value in row.items() if value not in (None, "", [], 0)} for row in rows]
    FILE.write_bytes(gzip.compress(json.dumps(kept, separators=(",", ":")).encode(), mtime=0))


if __name__ == "__main__":
    main()
