"""The command line. A command is imported when it is used, so that `runtally serve` does not wait for the others."""

import gc
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from runtally import BUILD
from runtally.errors import RuntallyError, StoreUnavailable

COMMANDS = {
    "serve": "webapp.cli.serve:serve",
    "migrate": "webapp.cli.migrate:migrate",
    "demo": "webapp.cli.demo:demo",
    "import": "webapp.cli.import_:import_file",
    "runs": "webapp.cli.runs:runs",
    "usage": "webapp.cli.usage:usage",
    "projects": "webapp.cli.projects:projects",
    "keys": "webapp.cli.keys:keys",
    "config": "webapp.cli.config:config",
    "users": "webapp.cli.users:users",
    "prices": "webapp.cli.prices:prices",
    "bills": "webapp.cli.bills:bills",
    "relay": "webapp.cli.reporting:relay",
    "reporting": "webapp.cli.reporting:reporting",
    "rollups": "webapp.cli.rollups:rollups",
    "retention": "webapp.cli.retention:retention",
    "archive": "webapp.cli.archive:archive",
    "backup": "webapp.cli.backup:backup",
    "restore": "webapp.cli.backup:restore",
    "mcp": "webapp.cli.mcp:mcp",
    "cells": "webapp.cli.cells:cells",
    "doctor": "webapp.cli.doctor:doctor",
}


class Commands(click.Group):
    """Finds commands in COMMANDS, and turns the domain's errors into one line on stderr."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # Click's interface.
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # Click's interface.
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].split(":")
        # Nothing that is imported is garbage, and looking for it takes a fifth of the time.
        gc.disable()
        command: click.Command = getattr(import_module(module), name)
        gc.enable()
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names without importing the commands for their help, which takes a second."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name) for name in COMMANDS if name.startswith(incomplete)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            "".join(args).encode()
        except UnicodeEncodeError:
            # Bytes that are no text: neither a database nor a server takes them.
            raise click.UsageError("Write arguments in UTF-8, names of files too.") from None
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except RuntallyError as error:
            from webapp.cli.output import printable  # noqa: PLC0415  # Only for errors.

            # Advice for clients of the API does not help the operator of the database.
            message = error.message
            if isinstance(error, StoreUnavailable) and message.endswith(StoreUnavailable.message):
                message = out_of_reach(error, f"cell {error.cell}" if error.cell else "DATABASE_URL")
            # What is wrong with one field alone may be the message itself.
            said = message.rstrip(".")
            details = [detail for detail in error.details if detail.message.rstrip(".") != said]
            lines = [message, *(f"  {detail.path}: {detail.message}" for detail in details)]
            raise click.ClickException(printable("\n".join(lines))) from error


def out_of_reach(error: StoreUnavailable, setting: str = "DATABASE_URL") -> str:
    """Return the message for a database that cannot be reached, by the setting that names it."""
    return f"The database of {setting} is out of reach: {error.reason}."


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(BUILD, prog_name="runtally")
@click.option("--cell", help="With several cells: the name in CELL_URLS of the cell to work on, instead of main.")
def main(cell: str | None) -> None:  # noqa: ARG001  # `webapp.cli.opening` reads it.
    """Self-hosted telemetry for LLM calls: cost, errors and latency, never prompts.

    Settings come from the environment; `runtally doctor` checks them and says what to do.
    Exit codes: 0 done, 1 failed, 2 wrong usage.

    \b
    Completion in bash, for ~/.bashrc (zsh, fish: zsh_source, fish_source):
      eval "$(_RUNTALLY_COMPLETE=bash_source runtally)"
    """
    from webapp.cli.worker import set_up_logs  # noqa: PLC0415  # `--help` is spared it.

    set_up_logs()
