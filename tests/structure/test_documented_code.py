"""Code of the documentation: it is what its language takes, and the commands and options that it names exist."""

import ast
import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
import yaml

from runtally.files import CHECKOUT
from webapp.cli import main as runtally

# Those of docs/cli.md are written by the command line itself.
DOCUMENTS = [
    *(CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(path for path in sorted((CHECKOUT / "docs").glob("*.md")) if path.name != "cli.md"),
    *sorted(CHECKOUT.glob("clients/*/README.md")),
]
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
# A call of the command: what comes before it may be a variable, a folder, another command, or uvx. A database is called runtally too.
CALL = re.compile(r"(?:^ *|(?:^|\s)[\w.~/]*/|uvx |&& |\| |[A-Z_]=\S* )runtally((?: +(?!#)[^\s|;&><)]+)+)")


def _parse_shell(text: str) -> None:
    done = subprocess.run(["bash", "-n"], input=text, check=False, capture_output=True, text=True)  # noqa: S607
    if done.returncode:
        raise ValueError(done.stderr)


def _parse_python(text: str) -> None:
    compile(text, "<documentation>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


PARSERS: dict[str, Callable[[str], object]] = {
    "sh": _parse_shell,
    "bash": _parse_shell,
    "python": _parse_python,
    "json": json.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "toml": tomllib.loads,
}


def blocks(path: Path) -> Iterator[tuple[str, str]]:
    """Language and text of each fenced block."""
    for indent, language, text in BLOCK.findall(path.read_text()):
        yield language, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)


def calls(path: Path) -> Iterator[str]:
    """What follows the command's name, wherever the document calls it."""
    shell = [text.replace("\\\n", " ") for language, text in blocks(path) if language in {"sh", "bash"}]
    spans = SPAN.findall(BLOCK.sub("", path.read_text()))
    for line in [line for text in shell for line in text.splitlines()] + spans:
        yield from CALL.findall(line)


def fault(arguments: str) -> str | None:
    """What is wrong with a call of the command; None when it names commands and options that there are."""
    command: click.Command = runtally
    context = click.Context(command)
    options = _options(command)
    # Before a command, the only option with a value.
    for word in re.sub(r"^\s*--cell \S+", "", arguments).split():
        name = word.partition("=")[0]
        if isinstance(command, click.Group) and not word.startswith("-"):
            found = command.get_command(context, name)
            if found is None:
                return f"{command.name} has no command {name}"
            command = found
            options |= _options(command)
        elif name.startswith("--") and name not in options:
            return f"{command.name} has no option {name}"
    return None


def _options(command: click.Command) -> set[str]:
    named = {one for parameter in command.params for one in (*parameter.opts, *parameter.secondary_opts)}
    return named | {"--help", "--version"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_blocks_are_what_their_language_takes(path: Path) -> None:
    for language, text in blocks(path):
        if language in PARSERS:
            PARSERS[language](text)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_commands_and_options_that_are_named_exist(path: Path) -> None:
    assert [(one, fault(one)) for one in calls(path) if fault(one)] == []


def test_there_is_code_to_look_at() -> None:
    languages = [language for path in DOCUMENTS for language, _ in blocks(path)]

    assert {"sh", "python", "json", "yaml", "toml"} & set(languages) >= {"sh", "python"}
    assert sum(1 for path in DOCUMENTS for _ in calls(path)) > 20
    assert fault(" serve --no-such-option") == "serve has no option --no-such-option"
    assert fault(" no-such-command") is not None
