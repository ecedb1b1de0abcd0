"""What the service says when it is up."""

import json
import socket
from pathlib import Path

import pytest

from tests.serving import settings_for
from webapp.cli import service
from webapp.cli.service import Greeting

DATABASE_URL = "postgresql://somewhere/db"


def greeting(
    *,
    port: int = 8000,
    by_make: bool = True,
    shown_key: str | None = None,
    set_up_token: str | None = None,
    database_url: str | None = DATABASE_URL,
    **settings: object,
) -> str:
    made = settings_for(DATABASE_URL, **settings).model_copy(update={"database_url": database_url})
    return str(
        Greeting(
            made,
            port=port,
            by_make=by_make,
            shown_key=shown_key,
            program=".venv/bin/runtally",
            set_up_token=set_up_token,
        )
    )


def test_a_key_that_was_not_made_here_is_never_shown() -> None:
    said = greeting(ingest_api_key="very-secret")

    assert "very-secret" not in said
    assert '"Authorization: Bearer $INGEST_API_KEY"' in said
    assert 'OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20$INGEST_API_KEY"' in said


def test_a_key_that_was_made_here_makes_the_line_work_when_pasted() -> None:
    said = greeting(shown_key="made here", port=8123)

    assert "'Authorization: Bearer made here'" in said
    assert "export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:8123\n" in said
    assert "export OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer%20made%20here\n" in said


@pytest.mark.parametrize(
    ("kept", "flags", "where"),
    [
        ("the-key", {"by_make": True, "dev_mode": True}, "shown"),
        ("the-key", {"by_make": True, "dev_mode": False}, "named"),
        # An installed package has no `make`, and nobody who starts it could know where its key is.
        ("the-key", {"by_make": False, "dev_mode": False}, "named"),
        ("a-key-of-before", {"by_make": True, "dev_mode": True}, "nowhere"),
    ],
)
def test_a_key_that_was_made_here_is_shown_to_its_only_user_and_else_its_file_is_named(
    kept: str, flags: dict[str, bool], where: str, tmp_path: Path
) -> None:
    (tmp_path / "secrets.json").write_text(json.dumps({"INGEST_API_KEY": kept}))
    settings = settings_for(
        DATABASE_URL, ingest_api_key="the-key", service_dev_mode=flags["dev_mode"], data_dir=tmp_path
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        said = str(service._greeting(settings, listener, None, by_make=flags["by_make"]))  # noqa: SLF001  # Starts nothing.

    assert ("the-key" in said) == (where == "shown")
    assert (f"INGEST_API_KEY is in {tmp_path}/secrets.json" in said) == (where == "named")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),  # noqa: S104  # Nothing listens here.
        ("::", "http://[::1]:8000"),
        ("10.0.0.7", "http://10.0.0.7:8000"),
    ],
)
def test_the_url_is_one_that_a_browser_can_open(host: str, url: str) -> None:
    assert f"is up: {url}\n" in greeting(host=host)


def test_it_prints_the_link_of_the_first_admin_while_there_is_one() -> None:
    assert "\n    http://127.0.0.1:8000/join?token=a-token\n" in greeting(set_up_token="a-token")
    assert "/join" not in greeting()


def test_it_says_how_to_load_the_demo() -> None:
    assert "\n    make demo\n" in greeting()
    assert "\n    .venv/bin/runtally demo --url http://127.0.0.1:9000\n" in greeting(port=9000)
    assert "\n    .venv/bin/runtally demo --url http://127.0.0.1:8000\n" in greeting(by_make=False)


def test_it_says_what_an_operator_must_know() -> None:
    assert "Dev mode: everyone" in greeting(service_dev_mode=True)
    assert "Dev mode" not in greeting()
    assert "INGEST_API_KEY is not set" in greeting(ingest_api_key="")
    assert "SECRET_KEY is not set" in greeting(secret_key="")
    assert "SECRET_KEY is not set" not in greeting()
    assert "embedded Postgres" in greeting(database_url=None)
    assert "embedded Postgres" not in greeting()
