"""Discord: webhooks of a channel (https://docs.discord.com/developers/resources/webhook#execute-webhook)."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from runtally.alerts.channel import Channel, Notice, Outcome, shorten
from runtally.alerts.posting import Answer, Poster, refused, vendor_url
from runtally.models.alert import TargetKind

HOSTS = frozenset(
    f"{prefix}{domain}" for prefix in ("", "ptb.", "canary.") for domain in ("discord.com", "discordapp.com")
)
PATH = re.compile(r"(/api(?:/v\d+)?/webhooks/\d+/[\w-]+)(?:/slack|/github)?/?")
CONTENT_LIMIT = 2000
DESCRIPTION_LIMIT = 4096
_MARKDOWN = re.compile(r"([\\*_~`|>\[\]()#@<-])")
_REMOVED = "the webhook was deleted in Discord; create a new one there"
# https://docs.discord.com/developers/topics/opcodes-and-status-codes#json
REFUSALS = {
    10003: "the webhook's channel does not exist any more",
    10015: _REMOVED,
    50027: "the URL is not complete; copy it from Discord again",
    220001: "the webhook posts to a forum; add ?thread_id= with the number of a thread to its URL",
}


@dataclass(frozen=True, slots=True)
class Discord(Channel):
    poster: Poster
    kind: ClassVar = TargetKind.DISCORD
    label: ClassVar = "Discord"

    def read(self, text: str) -> str | None:
        url = vendor_url(text, HOSTS.__contains__)
        if url is None:
            return None
        # The endings make Discord read the messages of other products.
        found = PATH.fullmatch(url.path)
        if found is None:
            raise refused("Webhooks of Discord are https://discord.com/api/webhooks/, a number, and a token.")
        return str(url.copy_with(path=found[1]))

    async def send(self, address: str, _secret: str | None, notice: Notice, _now: datetime) -> Outcome:
        url = vendor_url(address, HOSTS.__contains__)
        # Without `wait` Discord says yes before it has looked at the message.
        asked = str(url.copy_merge_params({"wait": "true"})) if url else address
        answer = await self.poster.post(asked, msgspec.json.encode(message(notice)))
        return self.outcome(answer, _refusal(answer))


def message(notice: Notice) -> dict[str, Any]:
    """Return the message: a line that notifications show, and an embed with the rest."""
    embed = {
        "description": shorten(escape(notice.text), DESCRIPTION_LIMIT),
        "timestamp": notice.timestamp,
        **({"title": notice.link_label, "url": notice.url} if notice.url else {}),
    }
    return {
        "content": shorten(f"**{escape(notice.title)}**", CONTENT_LIMIT),
        "embeds": [embed],
        "allowed_mentions": {"parse": []},
    }


def escape(text: str) -> str:
    """Escape what Discord reads as Markdown or as a mention."""
    return _MARKDOWN.sub(r"\\\1", text)


def _refusal(answer: Answer) -> str | None:
    try:
        return REFUSALS.get(msgspec.json.decode(answer.body, type=_Refusal).code)
    except msgspec.MsgspecError:
        return None


class _Refusal(msgspec.Struct):
    code: int = 0
