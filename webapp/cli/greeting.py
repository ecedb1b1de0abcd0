"""The greeting of `runtally serve`: the service's address, and the next steps."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from runtally import BUILD
from runtally.settings import Settings
from webapp.first_run import EXAMPLE_PROJECT, first_run_command, otlp_variables
from webapp.links import join_url

DEFAULT_PORT = Settings.model_fields["port"].default


@dataclass(frozen=True, slots=True)
class Greeting:
    """`shown_key` is an ingest key that may be on the screen, `key_file` where one is kept that may not.

    `program` is how the command line was called.
    """

    settings: Settings
    port: int
    by_make: bool
    shown_key: str | None
    program: str
    key_file: Path | None = None
    set_up_token: str | None = None

    @property
    def url(self) -> str:
        return self.settings.own_url(self.port)

    def __str__(self) -> str:
        return "\n".join(
            (
                "",
                f"Runtally {BUILD} is up: {self.url}",
                "",
                *self._set_up(),
                *self._first_run(),
                *self._demo(),
                *self._notes(),
            )
        )

    def _set_up(self) -> tuple[str, ...]:
        if self.set_up_token is None:
            return ()
        link = join_url((self.settings.public_url or self.url).rstrip("/"), self.set_up_token)
        return ("  Make the first admin's account; this link works once, for 24 hours:", "", f"    {link}", "")

    def _first_run(self) -> tuple[str, ...]:
        command = first_run_command(self.url, self.shown_key, EXAMPLE_PROJECT)
        variables = indent(otlp_variables(self.url, self.shown_key), "    ")
        kept = (f"  INGEST_API_KEY is in {self.key_file}, which nobody else can read.", "") if self.key_file else ()
        return (
            "  Post a first run:", "", indent(command, "    "), "",
            "  Or send spans of OpenTelemetry:", "", variables, "", *kept,
        )  # fmt: skip

    def _demo(self) -> tuple[str, ...]:
        usual = self.by_make and self.port == DEFAULT_PORT
        command = "make demo" if usual else f"{self.program} demo --url {self.url}"
        return ("  Or load two months of demo runs, from another terminal:", "", f"    {command}", "")

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if not self.settings.ingest_api_key:
            notes.append("INGEST_API_KEY is not set: ingest answers 503 until it is.")
        if not self.settings.secret_key:
            notes.append("SECRET_KEY is not set: nobody can sign in to the pages until it is.")
        if not self.settings.database_url:
            notes.append(f"The database is an embedded Postgres, with its data in {self.settings.data_dir}.")
        if self.settings.service_dev_mode:
            notes.append("Dev mode: everyone who can reach this address is an admin.")
        return (*(f"  {note}" for note in notes), "  Ctrl-C stops everything; what was acknowledged is stored.", "")
