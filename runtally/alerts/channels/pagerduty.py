"""PagerDuty: Events API v2 (https://developer.pagerduty.com/docs/send-alert-event)."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import httpx
import msgspec

from runtally.alerts.channel import Channel, Notice, Outcome, shorten
from runtally.alerts.message import unlinked
from runtally.alerts.posting import SHOWN_END, Poster, refused, vendor_url
from runtally.models.alert import AlertKind, TargetKind

HOSTS = frozenset({"events.pagerduty.com", "events.eu.pagerduty.com"})
KEY = re.compile(r"[0-9A-Za-z]{32}")
ENQUEUE = "/v2/enqueue"
SUMMARY_LIMIT = 1024
USED_UP = 100
"""Percent of a budget."""
REFUSALS = {
    400: "PagerDuty refused the event; check that the key is that of an Events API v2 integration",
    403: "PagerDuty does not know the integration key",
    429: "PagerDuty takes no more events at the moment",
}


@dataclass(frozen=True, slots=True)
class PagerDuty(Channel):
    """A channel whose address is a URL with the integration key as its query. Events are posted without the query."""

    poster: Poster
    kind: ClassVar = TargetKind.PAGERDUTY
    label: ClassVar = "PagerDuty"

    def read(self, text: str) -> str | None:
        if KEY.fullmatch(text):
            return f"https://events.pagerduty.com{ENQUEUE}?routing_key={text}"
        url = vendor_url(text, HOSTS.__contains__)
        if url is None:
            return None
        key = next((part for part in (*url.params.values(), *url.path.split("/")) if KEY.fullmatch(part)), None)
        if key is None:
            raise refused(
                "Give the integration key of 32 characters that PagerDuty shows with this URL; for an account in the EU "
                "https://events.eu.pagerduty.com/v2/enqueue?routing_key= and the key."
            )
        return str(url.copy_with(path=ENQUEUE, query=f"routing_key={key}".encode()))

    def mask(self, address: str) -> str:
        url = httpx.URL(address)
        return f"{url.scheme}://{url.netloc.decode()} …{url.params.get('routing_key', '')[-SHOWN_END:]}"

    async def send(self, address: str, _secret: str | None, notice: Notice, _now: datetime) -> Outcome:
        url = httpx.URL(address)
        key, bare = url.params.get("routing_key", ""), str(url.copy_with(query=None))
        event = resolve(key, notice) if notice.is_over else trigger(key, notice)
        outcome = await self._post(bare, event)
        if outcome.is_taken and notice.kind is AlertKind.TEST:
            # A test should not leave an incident open.
            outcome = await self._post(bare, resolve(key, notice))
        return outcome

    async def _post(self, url: str, event: dict[str, Any]) -> Outcome:
        answer = await self.poster.post(url, msgspec.json.encode(event))
        return self.outcome(answer, REFUSALS.get(answer.status))


def trigger(key: str, notice: Notice) -> dict[str, Any]:
    """Return the event that opens an incident; a second one with its `dedup_key` changes nothing."""
    return {
        "routing_key": key,
        "event_action": "trigger",
        "dedup_key": notice.id,
        "client": "Runtally",
        **({"client_url": notice.url} if notice.url else {}),
        "payload": {
            "summary": shorten(notice.title, SUMMARY_LIMIT),
            "source": unlinked(notice.project_id),
            "severity": _severity(notice),
            "timestamp": notice.timestamp,
            "class": notice.kind,
            "custom_details": {"text": notice.text, **_unlinked(notice.data)},
        },
    }


def resolve(key: str, notice: Notice) -> dict[str, Any]:
    """Return the event that closes the incident."""
    return {"routing_key": key, "event_action": "resolve", "dedup_key": notice.id}


def _unlinked(facts: Any) -> Any:  # noqa: ANN401  # Any JSON.
    """Return the facts with texts that PagerDuty, which shows them to people, makes no links of."""
    if isinstance(facts, dict):
        return {name: value if name == "url" else _unlinked(value) for name, value in facts.items()}
    if isinstance(facts, list):
        return [_unlinked(fact) for fact in facts]
    return unlinked(facts) if isinstance(facts, str) else facts


def _severity(notice: Notice) -> str:
    if notice.kind in {AlertKind.TEST, AlertKind.REPORT, AlertKind.BILL}:
        return "info"
    return "error" if notice.kind is AlertKind.BUDGET and notice.level >= USED_UP else "warning"
