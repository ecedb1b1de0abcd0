"""Write the table of vendors' usage objects where it is needed besides the Python client, which it belongs to.

The server, the TypeScript client and the guide have copies of their own, so that each can be installed by itself.
`--check` writes nothing, and fails if a copy is another one.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
OWN = CHECKOUT / "clients" / "python" / "src" / "runtally_client"
SERVER = CHECKOUT / "runtally"
TYPESCRIPT = CHECKOUT / "clients" / "typescript" / "src" / "table.ts"
GUIDE = CHECKOUT / "docs" / "sending.md"
BEGIN, END = "<!-- usage table: written by scripts/usage_table.py -->", "<!-- end of the usage table -->"
PLACES = {"whole": "", "inside": "", "beside": " (added to the input)", "more": " (added)"}


def copies() -> Iterator[tuple[Path, str]]:
    """Yield each copy and what it has to hold."""
    table = json.loads((OWN / "usage.json").read_text())
    yield SERVER / "usage.json", (OWN / "usage.json").read_text()
    yield SERVER / "vendor_usage.py", (OWN / "_usage.py").read_text()
    rows = "\n".join(f"  {json.dumps(row[:3])}," for row in table["rows"])
    about = "// Written by scripts/usage_table.py: where vendors put what they charge for in the usage of an answer."
    yield TYPESCRIPT, f"{about}\nexport const ROWS: [unit: string, path: string, place: string][] = [\n{rows}\n];\n"
    guide = GUIDE.read_text()
    before, after = guide.split(BEGIN)[0], guide.split(END)[1]
    yield GUIDE, f"{before}{BEGIN}\n\n{_markdown(table)}\n{END}{after}"


def _markdown(table: dict[str, list[list[str]]]) -> str:
    lines = ["| becomes | read from |", "|---|---|"]
    for unit in dict.fromkeys(row[0] for row in table["rows"]):
        paths = (f"{who}: `{path}`{PLACES[place]}" for name, path, place, who in table["rows"] if name == unit)
        lines.append(f"| `{unit}` | {'; '.join(paths)} |")
    left_out = ", ".join(f"`{path}`" for path in table["notBilled"])
    return "\n".join([*lines, "", f"Read for nothing, because it is in another count or free: {left_out}.", ""])


def main() -> int:
    """Write the copies, or say which are not what they should be."""
    wrong = [path for path, text in copies() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in wrong:
            print(f"{path.relative_to(CHECKOUT)} is out of date; run {Path(__file__).name}.")
        return 1 if wrong else 0
    for path, text in list(copies()):
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
