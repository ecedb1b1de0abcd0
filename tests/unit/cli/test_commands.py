"""The command line as a whole: each command found, helped and failed alike."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from runtally import BUILD
from runtally.db.connecting import REFUSED
from tests.serving import free_port
from webapp.cli import COMMANDS, main


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
    assert refused.output.endswith(f"Error: The database of DATABASE_URL is out of reach: {REFUSED}.\n")
    assert "very-secret" not in refused.output


def test_wrong_usage_is_exit_code_2() -> None:
    assert CliRunner().invoke(main, ["no-such-command"]).exit_code == 2
    assert CliRunner().invoke(main, ["serve", "--port", "99999"]).exit_code == 2


def test_bytes_that_are_no_text_are_wrong_usage() -> None:
    refused = CliRunner().invoke(main, ["projects", "hide", "\udcff"])

    assert refused.exit_code == 2
    assert "UTF-8" in refused.output


def test_the_version_is_the_package_s() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"runtally, version {BUILD}\n"


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


def lists() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        if isinstance(command, click.Group) and "list" in command.commands:
            yield name, command.commands["list"]


def test_every_list_comes_as_json_as_well() -> None:
    found = dict(lists())

    assert len(found) > 6
    assert [name for name, command in found.items() if not any("--json" in each.opts for each in command.params)] == []


@pytest.mark.parametrize("port", ["8000", "wrong"], ids=["good settings", "wrong settings"])
def test_what_a_command_logs_is_on_stderr_and_not_in_what_it_prints(port: str) -> None:
    program = """
import sys, types, click, structlog
from webapp import cli
noisy = sys.modules["noisy"] = types.ModuleType("noisy")
noisy.noisy = click.command()(lambda: (structlog.get_logger().warning("noise"), click.echo("[]")))
cli.COMMANDS["noisy"] = "noisy:noisy"
cli.main(["noisy"])
"""
    done = subprocess.run(  # noqa: S603  # Our own.
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, env={"PORT": port}
    )

    assert done.stdout == "[]\n"
    assert "noise" in done.stderr


def test_names_of_commands_are_completed_without_importing_them() -> None:
    def completed(*words: str) -> list[str]:
        asked = {
            "_RUNTALLY_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        shown = CliRunner(env=asked).invoke(main, prog_name="runtally").output
        return [line.partition(",")[2] for line in shown.splitlines()]

    assert completed("runtally", "pr") == ["projects", "prices"]
    assert completed("runtally", "runs", "e") == ["erase", "export"]
    assert "--status" in completed("runtally", "runs", "export", "--s")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_line_of_the_help_turns_completion_on_in_bash() -> None:
    line = next(one for one in CliRunner().invoke(main, ["--help"]).output.splitlines() if "bash_source" in one)
    programs = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    done = subprocess.run(  # noqa: S603  # A line of ours.
        ["bash", "-c", f"{line.strip()}\ncomplete -p runtally"],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
        env=programs,
    )

    assert done.stdout.startswith("complete ")
    assert done.stderr == ""
