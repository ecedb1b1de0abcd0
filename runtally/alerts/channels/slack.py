"""Slack: incoming webhooks of an app (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from runtally.alerts.channel import Channel, Notice, Outcome, shorten
from runtally.alerts.posting import Poster, refused, vendor_url
from runtally.models.alert import TargetKind

HOSTS = frozenset({"hooks.slack.com", "hooks.slack-gov.com"})
HEADER_LIMIT = 150
SECTION_LIMIT = 3000
_REMOVED = "the webhook was removed or switched off in Slack; create a new one there"
_FORBIDDEN = "the settings of the workspace forbid posting there"
# Slack answers with one of these words.
REFUSALS = {
    b"no_service": _REMOVED,
    b"no_service_id": _REMOVED,
    b"no_team": _REMOVED,
    b"team_disabled": _REMOVED,
    b"invalid_token": "the URL is not complete; copy it from Slack again",
    b"channel_not_found": "the webhook's channel does not exist any more",
    b"channel_is_archived": "the webhook's channel is archived",
    b"action_prohibited": _FORBIDDEN,
    b"posting_to_general_channel_denied": _FORBIDDEN,
}


@dataclass(frozen=True, slots=True)
class Slack(Channel):
    poster: Poster
    kind: ClassVar = TargetKind.SLACK
    label: ClassVar = "Slack"

    def read(self, text: str) -> str | None:
        url = vendor_url(text, HOSTS.__contains__)
        if url is None:
            return None
        if not url.path.startswith("/services/"):
            raise refused(
                "This URL starts a workflow, which has variables of its own. Create an incoming webhook in Slack: its URL "
                "begins with https://hooks.slack.com/services/."
            )
        return str(url)

    async def send(self, address: str, _secret: str | None, notice: Notice, _now: datetime) -> Outcome:
        answer = await self.poster.post(address, msgspec.json.encode(message(notice)))
        return self.outcome(answer, REFUSALS.get(answer.body.strip()))


def message(notice: Notice) -> dict[str, Any]:
    """Return the message: blocks for the channel, and a text for notifications, without which Slack refuses it."""
    lines = [escape(notice.text), *([f"<{notice.url}|{notice.link_label}>"] if notice.url else [])]
    return {
        "text": escape(notice.title),
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": shorten(notice.title, HEADER_LIMIT)}},
            {"type": "section", "text": {"type": "mrkdwn", "text": shorten("\n".join(lines), SECTION_LIMIT)}},
        ],
    }


def escape(text: str) -> str:
    """Escape the characters that Slack gives a meaning, so that no name can mention people or link anywhere."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
