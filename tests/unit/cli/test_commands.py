"""The command line as a whole: each command found, helped and failed alike."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from runtally import __version__
from tests.serving import free_port
from webapp.cli import COMMANDS, OUT_OF_REACH, main


def test_help_lists_every_command_with_a_sentence() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output

    for name in COMMANDS:
        assert f"\n  {name} " in shown
        line = next(line for line in shown.splitlines() if line.startswith(f"  {name} "))
        assert len(line.split()) > 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])

    assert result.exit_code == 0
    assert f"runtally {name}" in result.output.partition("Example")[2]


def test_a_command_is_imported_only_when_it_is_used() -> None:
    program = "import sys, webapp.cli; print([name for name in sys.modules if name.startswith('webapp.cli.')])"

    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)  # noqa: S603  # Our own.

    assert printed.stdout.strip() == "[]"


def test_an_error_of_ours_is_one_line_and_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "none")

    result = CliRunner().invoke(main, ["doctor"])
    refused = CliRunner().invoke(main, ["migrate"])

    assert (result.exit_code, refused.exit_code) == (1, 1)
    assert refused.output.startswith("Error: Correct these settings in the environment: PORT")
    assert refused.output.count("\n") == 1
    assert isinstance(refused.exception, SystemExit)


def test_a_database_that_is_away_is_told_to_its_operator() -> None:
    nowhere = {"DATABASE_URL": f"postgresql://somebody:very-secret@127.0.0.1:{free_port()}/none"}

    refused = CliRunner().invoke(main, ["migrate"], env=nowhere)

    assert refused.exit_code == 1
    assert refused.output.endswith(f"Error: {OUT_OF_REACH}\n")
    assert "very-secret" not in refused.output


def test_wrong_usage_is_exit_code_2() -> None:
    assert CliRunner().invoke(main, ["no-such-command"]).exit_code == 2
    assert CliRunner().invoke(main, ["serve", "--port", "99999"]).exit_code == 2


def test_bytes_that_are_no_text_are_wrong_usage() -> None:
    refused = CliRunner().invoke(main, ["projects", "archive", "\udcff"])

    assert refused.exit_code == 2
    assert "UTF-8" in refused.output


def test_the_version_is_the_package_s() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"runtally, version {__version__}\n"


def test_every_option_has_help() -> None:
    def silent(command: click.Command) -> list[str]:
        options = [option for option in command.params if isinstance(option, click.Option)]
        below = command.commands.values() if isinstance(command, click.Group) else ()
        return [
            *(f"{command.name} {option.name}" for option in options if not option.help),
            *(found for each in below for found in silent(each)),
        ]

    commands = (main.get_command(click.Context(main), name) for name in COMMANDS)

    assert [found for command in commands if command for found in silent(command)] == []
