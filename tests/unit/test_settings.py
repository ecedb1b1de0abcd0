"""Settings that would open doors."""

from contextlib import nullcontext

import pytest

from runtally.db.dsn import Dsn, refuse_same
from runtally.errors import SettingsError
from runtally.files import default_data_dir
from runtally.log import described
from runtally.settings import LogLevel, RelayMode, load_settings


@pytest.mark.parametrize(("value", "is_on"), [("1", True), ("0", False), ("", False), ("true", False), ("yes", False)])
def test_dev_mode_is_on_for_exactly_1(monkeypatch: pytest.MonkeyPatch, value: str, is_on: bool) -> None:
    monkeypatch.setenv("SERVICE_DEV_MODE", value)

    assert load_settings().service_dev_mode is is_on


def test_the_settings_do_not_show_the_passwords_of_urls() -> None:
    url = "postgresql://me:hunter2@db/runtally"

    settings = load_settings(
        database_url=url,
        reporting_database_url=url,
        cell_urls=f"eu={url}",
        service_sync_url="https://me:hunter2@receiver",
        secret_key="hunter2",
    )

    assert "hunter2" not in repr(settings) + str(settings)
    assert settings.database_url == url


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "mysql://me:hunter2@db/runtally",
        "postgresql://me@db:hunter2/runtally",
        "postgresql://me:hunter2@[::1/x",
        "postgresql://me:p/w@db:hunter2/x",
    ],
)
def test_an_invalid_database_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(SettingsError, match="REPORTING_DATABASE_URL") as caught:
        Dsn.parse(url)

    assert "hunter2" not in described(caught.value)


def test_a_pooler_is_named_by_the_url_and_by_nothing_that_reaches_the_server() -> None:
    pooled = Dsn.parse("postgres://me:hunter2@db/runtally?sslmode=require&pgbouncer=true")

    assert pooled.is_pooled
    assert pooled.texts == ("postgresql://me:hunter2@db/runtally?sslmode=require",)
    assert not Dsn.parse("postgresql://db/runtally").is_pooled
    with pytest.raises(SettingsError, match="pgbouncer=true"):
        Dsn.parse("postgresql://db/runtally?pgbouncer=maybe")


def test_a_url_may_name_several_servers_of_which_one_takes_writes() -> None:
    found = Dsn.parse("postgresql://me:a,b@one:5433,two/runtally?sslmode=require")

    assert found.texts == (
        "postgresql://me:a%2Cb@one:5433/runtally?sslmode=require&target_session_attrs=read-write",
        "postgresql://me:a%2Cb@two/runtally?sslmode=require&target_session_attrs=read-write",
    )
    assert Dsn.parse("postgresql://one,two/x?target_session_attrs=standby").urls[1].query == {
        "target_session_attrs": "standby"
    }
    assert Dsn.parse("postgresql://me:a,b/c@one/x?y=z").texts == ("postgresql://me:a%2Cb%2Fc@one/x?y=z",)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("postgresql://me:hunter2@one,,two/x", "comma without a server"),
        ("postgresql://me:hunter2@one:5432,:5433/x", "comma without a server"),
        ("postgresql://me:hunter2@one,two:port/x", "not a URL"),
        ("postgresql://me:hunter2@one,two/x?target_session_attrs=prefer-standby", "must be one of: any, primary"),
    ],
)
def test_a_url_with_several_servers_of_which_one_is_wrong_is_refused(url: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason) as caught:
        Dsn.parse(url)

    assert "hunter2" not in described(caught.value)


def test_a_variable_that_is_empty_is_as_if_it_were_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "RETENTION_DAYS",
        "OIDC_ISSUER",
        "OIDC_ROLE",
        "PG_BIN",
        "DATA_DIR",
        "HOST",
        "PORT",
        "LOG_LEVEL",
        "RELAY",
    ):
        monkeypatch.setenv(name, "")
    # These have a default that can be taken away.
    for name in ("DIRECT_COST_PROVIDERS", "CONTENT_KEYS", "INGEST_API_KEY"):
        monkeypatch.setenv(name, "")

    settings = load_settings()

    assert (settings.retention_days, settings.oidc_issuer, settings.oidc_role, settings.pg_bin) == (None,) * 4
    assert (settings.data_dir, settings.own_url()) == (default_data_dir(), "http://127.0.0.1:8000")
    assert (settings.log_level, settings.relay) == (LogLevel.INFO, RelayMode.EMBEDDED)
    assert (settings.direct_cost_providers, settings.content_keys, settings.ingest_api_key) == ((), (), ())


@pytest.mark.parametrize("text", ["Mars/Olympus", "America", "../../etc/passwd", "CEST+2 "])
def test_a_time_zone_that_is_none_is_refused_with_what_to_write(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TIME_ZONE", text)
    with pytest.raises(SettingsError, match="TIME_ZONE: write a name of the IANA") as caught:
        load_settings()

    assert "such as Europe/Berlin" in caught.value.message
    assert text not in caught.value.message


@pytest.mark.parametrize("name", ["PUBLIC_URL", "SERVICE_SYNC_URL", "OIDC_ISSUER"])
@pytest.mark.parametrize("text", ["runtally.example:hunter2", "https://", "https://run tally:hunter2"])
def test_an_invalid_url_is_refused_with_the_purpose_of_the_setting(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(SettingsError, match=f"{name}: (Where|URL)[^^]*[.]$") as caught:
        load_settings()

    assert "hunter2" not in caught.value.message


def test_a_mistyped_log_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOG_LEVEL", "DEBG")
    with pytest.raises(SettingsError, match="LOG_LEVEL"):
        load_settings()

    monkeypatch.setenv("LOG_LEVEL", "debug")
    assert load_settings().log_level is LogLevel.DEBUG


@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:8000"),
        ("0.0.0.0", 9000, "http://127.0.0.1:9000"),  # noqa: S104  # Nothing listens here.
        ("::", None, "http://[::1]:8000"),
        ("10.0.0.7", 0, "http://10.0.0.7:0"),
    ],
)
def test_the_own_url_is_one_that_this_machine_can_open(host: str, port: int | None, url: str) -> None:
    assert load_settings(host=host, port=8000).own_url(port) == url


def test_a_cell_may_have_several_servers() -> None:
    one, other = "postgresql://me@a:5432,b:5433/runtally", "postgresql://c/runtally?host=/tmp&port=1"

    assert load_settings(cell_urls=f"eu={one}, us={other}").cell_urls == {"eu": one, "us": other}
    assert load_settings(cell_urls="").cell_urls == {}


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:hunter2@db/runtally",
        "eu=",
        "EU=postgresql://me:hunter2@db/a",
        "main=postgresql://me:hunter2@db/a",
        "eu=postgresql://me:hunter2@db/a,eu=postgresql://me:hunter2@db/b",
    ],
)
def test_cells_without_names_of_their_own_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="CELL_URLS") as caught:
        load_settings(cell_urls=text)

    assert "hunter2" not in caught.value.message
    # What the library puts before every message of ours.
    assert "Value error" not in caught.value.message


@pytest.mark.parametrize(
    ("one", "other", "are_same"),
    [
        ("postgresql://me@db/a", "postgresql://you:secret@db:5432/a", True),
        ("postgresql://db:1,db:2/a", "postgresql://db:2/a", True),
        ("postgresql://db/a", "postgresql://db/b", False),
        ("postgresql://me@/a?host=/x", "postgresql://me@/a?host=/y", False),
    ],
)
def test_two_cells_have_two_databases(one: str, other: str, are_same: bool) -> None:  # A case.
    with pytest.raises(SettingsError, match="same database") if are_same else nullcontext():
        refuse_same({"main": Dsn.parse(one), "eu": Dsn.parse(other)})
