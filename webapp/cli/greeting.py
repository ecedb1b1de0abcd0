"""What `runtally serve` says when it is up: where it is, and what to do next."""

from dataclasses import dataclass

from runtally import __version__
from runtally.settings import Settings

DEFAULT_PORT = Settings.model_fields["port"].default
ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # Nothing is bound here: a client needs one address.
FIRST_RUN = (
    '{"projectId": "my-project", "provider": "openai", "model": "gpt-4o-mini", '
    '"inputTokens": 1200, "outputTokens": 350, "latencyMs": 840}'
)


@dataclass(frozen=True, slots=True)
class Greeting:
    """`shown_key` is an ingest key that may be on the screen, `program` how the command line was called."""

    settings: Settings
    port: int
    by_make: bool
    shown_key: str | None
    program: str

    @property
    def url(self) -> str:
        host = ANY_ADDRESS.get(self.settings.host, self.settings.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def __str__(self) -> str:
        return "\n".join(
            ("", f"Runtally {__version__} is up: {self.url}", "", *self._first_run(), *self._demo(), *self._notes())
        )

    def _first_run(self) -> tuple[str, ...]:
        key = self.shown_key or "$INGEST_API_KEY"
        return (
            "  Post a first run:",
            "",
            f"    curl {self.url}/api/ingest \\",
            f'      -H "Authorization: Bearer {key}" \\',
            '      -H "Content-Type: application/json" \\',
            f"      -d '{FIRST_RUN}'",
            "",
        )

    def _demo(self) -> tuple[str, ...]:
        usual = self.by_make and self.port == DEFAULT_PORT
        command = "make demo" if usual else f"{self.program} demo --url {self.url}"
        return ("  Or load a month of demo runs, from another terminal:", "", f"    {command}", "")

    def _notes(self) -> tuple[str, ...]:
        notes = []
        if not self.settings.ingest_api_key:
            notes.append("INGEST_API_KEY is not set: ingest answers 503 until it is.")
        if not self.settings.database_url:
            notes.append(f"The database is an embedded Postgres, with its data in {self.settings.data_dir}.")
        if self.settings.service_dev_mode:
            notes.append("Dev mode: everybody who reaches this address is admin.")
        return (*(f"  {note}" for note in notes), "  Ctrl-C stops everything; what was acknowledged is stored.", "")
