"""Where documents are pushed to."""

import pytest

from runtally.errors import NotConfigured, SettingsError
from runtally.reporting.push import Pusher, sync_url
from tests.serving import settings_for


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://127.0.0.1:8000/api/internal/pg-sync"),
        ({"host": "0.0.0.0", "port": 81}, "http://127.0.0.1:81/api/internal/pg-sync"),  # noqa: S104  # Not listened on.
        ({"host": "::", "port": 81}, "http://[::1]:81/api/internal/pg-sync"),
        ({"host": "runs.example"}, "http://runs.example:8000/api/internal/pg-sync"),
        ({"service_sync_url": "https://a.example"}, "https://a.example/api/internal/pg-sync"),
        ({"service_sync_url": "https://a.example/"}, "https://a.example/api/internal/pg-sync"),
        ({"service_sync_url": "https://a.example/hooks/runs?x=1"}, "https://a.example/hooks/runs?x=1"),
    ],
)
def test_documents_go_to_this_service_unless_a_url_says_otherwise(settings: dict[str, object], url: str) -> None:
    assert sync_url(settings_for("postgresql://h/d", **settings)) == url


def test_without_a_secret_there_is_nothing_to_sign_with() -> None:
    with pytest.raises(NotConfigured):
        Pusher(settings_for("postgresql://h/d"))


def test_a_url_that_is_none_is_refused_without_repeating_it() -> None:
    with pytest.raises(SettingsError) as caught:
        sync_url(settings_for("postgresql://h/d", service_sync_url="http://me@receiver:hunter2"))

    assert "hunter2" not in str(caught.value)


async def test_the_receiver_is_named_without_what_may_be_a_secret() -> None:
    url = "https://me:hunter2@receiver.example/runs?token=hunter2"
    async with Pusher(settings_for("postgresql://h/d", service_sync_url=url, service_sync_sign="s")) as pusher:
        assert pusher.receiver == "https://receiver.example/runs"
