"""Writes the parts of the documentation that the code knows better: a first run, settings, columns, the command line.

python scripts/docs.py          write them
python scripts/docs.py --check  say which are out of date, and exit with 1
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
from sqlalchemy.dialects import postgresql

from runtally.models.reporting import DAILY_VIEWS, ReportingRun
from runtally.otlp.attributes import FIELDS
from runtally.otlp.scopes import GAPS
from runtally.settings import Settings
from webapp.cli import main as runtally
from webapp.snippets import EXAMPLE_PROJECT, first_run_command

ROOT = Path(__file__).resolve().parents[1]
FIRST_RUN_START, FIRST_RUN_END = "<!-- first run: written by `make docs` -->", "<!-- end of first run -->"
ATTRIBUTES_START, ATTRIBUTES_END = "<!-- attributes: written by `make docs` -->", "<!-- end of attributes -->"
GAPS_START, GAPS_END = "<!-- gaps: written by `make docs` -->", "<!-- end of gaps -->"
COLUMNS_START, COLUMNS_END = "<!-- columns: written by `make docs` -->", "<!-- end of columns -->"

SETTINGS_INTRO = """# Settings

Written by `make docs` from `runtally/settings.py`.

From the environment. A secret may also come from a file: `INGEST_API_KEY_FILE=/run/secrets/ingest`.

| variable | default | meaning |
|---|---|---|
"""


def main() -> None:
    stale = [path for path, text in generated().items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date; run `make docs`.")
        sys.exit(bool(stale))
    for path, text in generated().items():
        path.write_text(text)


def generated() -> dict[Path, str]:
    """Each generated file with the text that it should have."""
    readme, reporting = ROOT / "README.md", ROOT / "docs" / "reporting.md"
    opentelemetry = ROOT / "docs" / "opentelemetry.md"
    attributes = _between(opentelemetry.read_text(), ATTRIBUTES_START, ATTRIBUTES_END, otlp_attributes())
    return {
        readme: _between(readme.read_text(), FIRST_RUN_START, FIRST_RUN_END, first_run()),
        reporting: _between(reporting.read_text(), COLUMNS_START, COLUMNS_END, reporting_columns()),
        opentelemetry: _between(attributes, GAPS_START, GAPS_END, otlp_gaps()),
        ROOT / "docs" / "configuration.md": settings(),
        ROOT / "docs" / "cli.md": command_line(),
    }


def _between(text: str, start: str, end: str, generated: str) -> str:
    before, _, rest = text.partition(start)
    return f"{before}{start}\n\n{generated}\n\n{end}{rest.partition(end)[2]}"


def first_run() -> str:
    command = first_run_command(Settings.model_construct().own_url(), None, EXAMPLE_PROJECT)
    return f"```sh\n{command}\n```"


def otlp_attributes() -> str:
    """Write the table of the attributes that are read from spans, by field."""
    rows = [f"| {meaning} | {', '.join(f'`{name}`' for name in names)} |" for _, meaning, names in FIELDS.values()]
    return "\n".join(["| of a run | from |", "|---|---|", *rows])


def otlp_gaps() -> str:
    """Write the table of what instrumentations are known to leave out, by scope."""
    rows = [f"| `{scope}` {gap.version} | {gap.lacks} | {gap.remedy} |" for scope, gap in GAPS.items()]
    return "\n".join(["| scope, and its version | what it does | what to do |", "|---|---|---|", *rows])


def settings() -> str:
    rows = [
        f"| `{name.upper()}` | {_default(field.default)} | {field.description} |\n"
        for name, field in Settings.model_fields.items()
    ]
    return SETTINGS_INTRO + "".join(rows)


def _default(value: object) -> str:
    if isinstance(value, bool):
        return f"`{int(value)}`"
    if isinstance(value, tuple):
        value = ",".join(value) if len(value) < 5 else "see `runtally/settings.py`"  # noqa: PLR2004  # Long lists tell nothing in a table.
        return value if " " in value else f"`{value}`" if value else ""
    if isinstance(value, int | str):
        return f"`{value}`"
    return ""


def reporting_columns() -> str:
    """The reporting table and its views, column by column."""
    table = [
        "### reporting_runs\n",
        "| column | type | empty? | meaning |",
        "|---|---|---|---|",
        *(
            f"| `{column.name}` | {str(column.type.compile(dialect=postgresql.dialect())).lower()} "
            f"| {'yes' if column.nullable else ''} | {column.comment} |"
            for column in ReportingRun.__table__.columns
        ),
    ]
    for view in DAILY_VIEWS:
        table += [f"\n### {view.name}\n", f"{view.comment}\n", "| column | meaning |", "|---|---|"]
        table += [f"| `{name}` | {meaning} |" for name, meaning in view.columns.items()]
    return "\n".join(table)


def command_line() -> str:
    intro = "# Command line\n\nWritten by `make docs` from `runtally --help`.\n"
    return intro + "".join(_helps(runtally, click.Context(runtally, info_name="runtally", terminal_width=100)))


def _helps(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f"\n## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _helps(inner, click.Context(inner, parent=context, info_name=name, terminal_width=100))


if __name__ == "__main__":
    main()
