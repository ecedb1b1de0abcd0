"""Which channel an address belongs to, how it is stored, and how it is shown."""

from collections.abc import AsyncIterator

import pytest

from runtally.alerts.channels.mail import Mailer
from runtally.alerts.confirming import ConfirmationLinks
from runtally.alerts.posting import mask_url
from runtally.alerts.registry import Channels
from runtally.errors import InvalidAlertTarget
from runtally.models.alert import TargetKind
from runtally.settings import SmtpTls

KEY = "R0abcdefghijklmnopqrstuvwxyz1234"
SLACK = "https://hooks.slack.com/services/T0000/B0000/secretsecretsecretsecret"
DISCORD = "https://discord.com/api/webhooks/123/secret-secret_secret"
PAGERDUTY = f"https://events.pagerduty.com/v2/enqueue?routing_key={KEY}"
WORKFLOW = (
    "https://default00.00.environment.api.powerplatform.com:443/powerautomate/automations/direct/workflows/00/triggers/"
    "manual/paths/invoke?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=secretsecretsecret"
)
LOGIC = "https://prod-05.westeurope.logic.azure.com/workflows/00/triggers/manual/paths/invoke?sig=secretsecretsecret"
CONNECTOR = "https://acme.webhook.office.com/webhookb2/00@00/IncomingWebhook/secretsecretsecret/00"


@pytest.fixture
async def channels() -> AsyncIterator[Channels]:
    mailer = Mailer("localhost", 25, "runtally@example.com", SmtpTls.OFF, None, None)
    links = ConfirmationLinks("https://runtally.example", [b"key"])
    async with Channels.opened(mailer, links, allow_private=False) as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "kind", "address"),
    [
        (f"  {SLACK}\n", TargetKind.SLACK, SLACK),
        (DISCORD, TargetKind.DISCORD, DISCORD),
        (f"{DISCORD}/slack?thread_id=7", TargetKind.DISCORD, f"{DISCORD}?thread_id=7"),
        (DISCORD.replace("com/api", "com/api/v10"), TargetKind.DISCORD, DISCORD.replace("com/api", "com/api/v10")),
        (
            DISCORD.replace("discord", "canary.discord"),
            TargetKind.DISCORD,
            DISCORD.replace("discord", "canary.discord"),
        ),
        (WORKFLOW, TargetKind.TEAMS, WORKFLOW.replace(":443", "")),
        (LOGIC, TargetKind.TEAMS, LOGIC),
        (CONNECTOR, TargetKind.TEAMS, CONNECTOR),
        (KEY, TargetKind.PAGERDUTY, PAGERDUTY),
        (f"https://events.pagerduty.com/integration/{KEY}/enqueue", TargetKind.PAGERDUTY, PAGERDUTY),
        (PAGERDUTY.replace("events.", "events.eu."), TargetKind.PAGERDUTY, PAGERDUTY.replace("events.", "events.eu.")),
        ("Ada@Example.com", TargetKind.EMAIL, "ada@example.com"),
        ("https://example.com/hook", TargetKind.WEBHOOK, "https://example.com/hook"),
        ("https://hooks.slack.com.evil.example/services/x", TargetKind.WEBHOOK, None),
        ("https://evil.example/?https://discord.com/api/webhooks/1/x", TargetKind.WEBHOOK, None),
        ("https://evil-api.powerplatform.com.example/", TargetKind.WEBHOOK, None),
    ],
)
async def test_an_address_is_recognised_and_stored_in_one_form(
    channels: Channels, text: str, kind: TargetKind, address: str | None
) -> None:
    channel, found = channels.recognise(text)

    assert channel.kind is kind
    assert found == (address or text)
    # What is stored is read back as it is.
    assert channel.read(found) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("https://hooks.slack.com/triggers/T0/1/x", "starts a workflow"),
        (SLACK.replace("https", "http"), "begin with https://"),
        ("https://discord.com/channels/1/2", "Webhooks of Discord are"),
        ("https://events.pagerduty.com/v2/enqueue", "integration key of 32 characters"),
        ("http://127.0.0.1/", "private network"),
        (KEY[:-1], "Give a URL"),
        ("", "Give a URL"),
    ],
)
async def test_an_address_that_cannot_be_used_is_refused_with_what_to_do(
    channels: Channels, text: str, why: str
) -> None:
    with pytest.raises(InvalidAlertTarget, match=why) as refused:
        channels.recognise(text)

    assert [detail.path for detail in refused.value.details] == ["address"]


@pytest.mark.parametrize("text", [SLACK, DISCORD, WORKFLOW, LOGIC, CONNECTOR, KEY, "https://example.com/secret"])
async def test_no_secret_is_shown(channels: Channels, text: str) -> None:
    channel, address = channels.recognise(text)

    masked = channel.mask(address)

    assert "secret" not in masked
    assert KEY[:8] not in masked
    assert masked.startswith("https://")


def test_two_long_addresses_of_a_host_are_shown_differently() -> None:
    assert mask_url(SLACK.replace("secretsecretsecretsecret", "a" * 20 + "1234")) == "https://hooks.slack.com/…1234"
    assert mask_url("https://example.com:8443") == "https://example.com:8443"
    assert mask_url("https://example.com/short") == "https://example.com/…"
