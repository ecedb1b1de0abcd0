"""Where documents are pushed to."""

import pytest

from runtally.errors import NotConfigured, SettingsError
from runtally.reporting.remote import Pusher, sync_url
from tests.serving import settings_for


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ("https://a.example", "https://a.example/api/internal/pg-sync"),
        ("https://a.example/", "https://a.example/api/internal/pg-sync"),
        ("https://a.example/hooks/runs?x=1", "https://a.example/hooks/runs?x=1"),
    ],
)
def test_documents_go_to_the_path_of_the_interface_unless_the_url_has_one(said: str, url: str) -> None:
    assert sync_url(said) == url


@pytest.mark.parametrize("missing", ["service_sync_url", "service_sync_sign"])
def test_without_a_receiver_or_a_secret_nothing_can_be_pushed(missing: str) -> None:
    settings = {"service_sync_url": "https://a.example", "service_sync_sign": "s"}

    with pytest.raises(NotConfigured, match=missing.upper()):
        Pusher(settings_for("postgresql://h/d", **(settings | {missing: ""})))


def test_an_invalid_url_is_refused_without_repeating_it() -> None:
    with pytest.raises(SettingsError) as caught:
        sync_url("http://me@receiver:hunter2")

    assert "hunter2" not in str(caught.value)


async def test_the_receiver_is_named_without_its_secret_parts() -> None:
    url = "https://me:hunter2@receiver.example/runs?token=hunter2"
    async with Pusher(settings_for("postgresql://h/d", service_sync_url=url, service_sync_sign="s")) as pusher:
        assert pusher.receiver == "https://receiver.example/runs"
