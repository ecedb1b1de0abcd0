"""Check the settings as a whole before anything starts. Each setting alone is checked when it is read."""

import ipaddress
from collections.abc import Callable

from runtally import extras
from runtally.errors import MissingExtra, SettingsError
from runtally.settings import MAIN, Settings


def check_settings(settings: Settings) -> None:
    """Raises `SettingsError` that names everything that would keep the service from starting."""
    wrong = []
    for check in _CHECKS:
        try:
            check(settings)
        except (SettingsError, MissingExtra) as error:
            wrong.append(error.message)
    if wrong:
        raise SettingsError(" ".join(wrong))


def _check_dev_mode(settings: Settings) -> None:
    if settings.service_dev_mode and not settings.service_dev_mode_allow_remote and not _is_loopback(settings.host):
        raise SettingsError(
            f"With SERVICE_DEV_MODE=1 everybody is admin, and others can reach {settings.host}: unset it, or listen on "
            "127.0.0.1. SERVICE_DEV_MODE_ALLOW_REMOTE=1 allows it all the same."
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_databases(settings: Settings) -> None:
    for url in (settings.database_url, settings.read_database_url, settings.reporting_database_url):
        if url is not None:
            # A start of the embedded server is spared what it needs.
            from runtally.db.dsn import Dsn  # noqa: PLC0415

            Dsn.parse(url)


def _check_cells(settings: Settings) -> None:
    if settings.cell_urls:
        from runtally.db.dsn import Dsn, refuse_same  # noqa: PLC0415  # As above.

        main = {MAIN: settings.database_url} if settings.database_url else {}
        refuse_same({name: Dsn.parse(url) for name, url in (main | dict(settings.cell_urls)).items()})


def _check_receiver(settings: Settings) -> None:
    if settings.service_sync_url:
        from runtally.reporting.remote import sync_url  # noqa: PLC0415  # As above.

        sync_url(settings.service_sync_url)


_CHECKS: tuple[Callable[[Settings], object], ...] = (
    _check_dev_mode,
    _check_databases,
    _check_cells,
    lambda settings: settings.openid,
    _check_receiver,
    extras.check,
)
