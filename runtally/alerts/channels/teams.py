"""Microsoft Teams: an Adaptive Card, sent to a workflow's webhook or to an older channel connector.

https://learn.microsoft.com/en-us/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from runtally.alerts.channel import Channel, Notice, Outcome, shorten
from runtally.alerts.posting import Poster, vendor_url
from runtally.models.alert import TargetKind

WORKFLOWS = (".api.powerplatform.com", ".logic.azure.com")
CONNECTORS = (".webhook.office.com",)
OLD_CONNECTORS = frozenset({"outlook.office.com", "outlook.office365.com"})
# A whole message may have 28 KB.
TEXT_LIMIT = 4000
_CLOSED = "the URL is not complete, or its workflow is not open to anyone; copy it from Teams again"
REFUSALS = {
    400: "the workflow is switched off, or does not begin with a Teams webhook",
    401: _CLOSED,
    403: _CLOSED,
    404: "the workflow was deleted in Teams; create a new one there",
    410: "the webhook was removed in Teams; create a workflow there",
}


@dataclass(frozen=True, slots=True)
class Teams(Channel):
    poster: Poster
    kind: ClassVar = TargetKind.TEAMS
    label: ClassVar = "Teams"

    def read(self, text: str) -> str | None:
        url = vendor_url(text, lambda host: host.endswith(WORKFLOWS) or is_connector(host))
        return str(url) if url else None

    async def send(self, address: str, _secret: str | None, notice: Notice, _now: datetime) -> Outcome:
        answer = await self.poster.post(address, msgspec.json.encode(message(notice)))
        # Connectors answer 200 also where Teams refuses; 1 is their word for success.
        if answer.is_success and vendor_url(address, is_connector) and answer.body.strip() != b"1":
            return Outcome.failed("Teams refused the message; the connector or its channel may have been removed")
        return self.outcome(answer, REFUSALS.get(answer.status))


def is_connector(host: str) -> bool:
    return host.endswith(CONNECTORS) or host in OLD_CONNECTORS


def message(notice: Notice) -> dict[str, Any]:
    """Return the message: one Adaptive Card. Its text is in runs, which have no Markdown that a name could use."""
    lines = shorten(notice.text, TEXT_LIMIT).splitlines()
    title = {"type": "TextRun", "text": notice.title, "weight": "Bolder", "size": "Medium"}
    runs = [title, *({"type": "TextRun", "text": line} for line in lines if line)]
    actions = [{"type": "Action.OpenUrl", "title": notice.link_label, "url": notice.url}] if notice.url else []
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": notice.title,
        "body": [{"type": "RichTextBlock", "inlines": [run]} for run in runs],
        "actions": actions,
        "msteams": {"width": "Full"},
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}
