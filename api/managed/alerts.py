"""Where the alerts of a project go, and what sends them."""

import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

import msgspec
from msgspec import Meta

from api.managed.kind import At, Kind, Known, OfAll, ProjectId, Resource
from runtally.access.scopes import Scope
from runtally.alerts import rule_edit, targets
from runtally.alerts.registry import Channels
from runtally.alerts.rules import MIN_RUNS
from runtally.alerts.targets import NewTarget
from runtally.errors import InvalidAlertRule
from runtally.fields import camel, trimmed
from runtally.models.alert import AlertTarget
from runtally.money import plain


class ManagedAlertChannel(Resource, frozen=True, kw_only=True):
    """Where alerts go. No test message is sent there."""

    project_id: OfAll
    address: Annotated[
        str,
        Meta(
            max_length=2048,
            description="URL of Slack, Discord, Teams or of your own; a mail address; or an integration key of PagerDuty. Answers "
            "have its end alone, which stands for it where it is sent back.",
        ),
    ]
    of_unusual_cost: Annotated[bool, Meta(description="Also hours of unusual cost.")] = True
    weekly_report: Annotated[bool, Meta(description="Also a report each Monday.")] = False


class ManagedAlertRule(Resource, frozen=True, kw_only=True):
    """What an hour of the project may be like before it alerts: by a threshold, or compared with the usual hour."""

    project_id: ProjectId
    error_rate_percent: Decimal | None = None
    error_rate_unusual: bool = False
    latency_ms: Decimal | None = None
    latency_unusual: bool = False
    cache_hit_rate_percent: Decimal | None = None
    cache_hit_rate_unusual: bool = False
    min_runs: Annotated[int, Meta(description="An hour with fewer runs says nothing.")] = MIN_RUNS


_RULES = {
    "error_rate": "error_rate_percent",
    "error_rate_unusual": "error_rate_unusual",
    "latency": "latency_ms",
    "latency_unusual": "latency_unusual",
    "cache_hit_rate": "cache_hit_rate_percent",
    "cache_hit_rate_unusual": "cache_hit_rate_unusual",
    "min_runs": "min_runs",
}
"""Our names for the fields of the form, whose texts say no unit."""


def _shown(channels: Channels, kind: str, address: str) -> str:
    """Return an address without its secret parts, as no other one is shown."""
    masked = channels[kind].mask(address)
    return masked if masked == address else f"{masked} #{hashlib.sha256(address.encode()).hexdigest()[:6]}"


async def _channels(at: At, project_id: str) -> list[ManagedAlertChannel]:
    found = await targets.list_targets(await at.cell(project_id), project_id)
    return [
        ManagedAlertChannel(
            project_id=project_id,
            address=_shown(at.services.channels, one.kind, one.address),
            of_unusual_cost=one.of_unusual_cost,
            weekly_report=one.weekly_report,
        )
        for one in found
    ]


def _normal_channel(at: At, sent: ManagedAlertChannel, known: Known) -> ManagedAlertChannel:
    """Return it with the address that is shown, by which it is known, and the whole one as its secret."""
    sent = msgspec.structs.replace(sent, project_id=trimmed(sent.project_id), address=sent.address.strip())
    if CHANNELS.key_of(sent) in known:
        return sent
    channel, address = at.services.channels.recognise(sent.address)
    return msgspec.structs.replace(sent, address=_shown(at.services.channels, channel.kind, address), secret=address)


async def _save_channel(at: At, sent: ManagedAlertChannel, before: ManagedAlertChannel | None) -> str | None:
    session, editor = await at.cell(sent.project_id), at.services.cells.of(sent.project_id or None).alert_targets
    new = NewTarget(str(sent.secret), of_unusual_cost=sent.of_unusual_cost, weekly_report=sent.weekly_report)
    if before is not None:
        await editor.change(session, at.by, await _target(at, before), new)
        return None
    return (await editor.add(session, at.by, sent.project_id, new)).secret


async def _remove_channel(at: At, one: ManagedAlertChannel) -> None:
    editor = at.services.cells.of(one.project_id or None).alert_targets
    await editor.remove(await at.cell(one.project_id), at.by, await _target(at, one))


async def _target(at: At, one: ManagedAlertChannel) -> AlertTarget:
    found = await targets.list_targets(await at.cell(one.project_id), one.project_id)
    return next(row for row in found if _shown(at.services.channels, row.kind, row.address) == one.address)


async def _rules(at: At, project_id: str) -> list[ManagedAlertRule]:
    found = await rule_edit.list_rules(await at.cell(project_id), project_id)
    if not found:
        return []
    texts = rule_edit.as_fields(found)
    # Empty texts are what is not set.
    values = {camel(ours): texts[name] for name, ours in _RULES.items() if texts[name]}
    return [msgspec.convert({"projectId": project_id, **values}, ManagedAlertRule, strict=False)]


def _rule_form(sent: ManagedAlertRule) -> Mapping[str, str]:
    values = {name: getattr(sent, ours) for name, ours in _RULES.items()}
    return {
        name: "1" if value is True else plain(value) if isinstance(value, Decimal) else str(value)
        for name, value in values.items()
        if value is not None and value is not False
    }


async def _save_rules(at: At, sent: ManagedAlertRule, _before: ManagedAlertRule | None) -> None:
    session, form = await at.cell(sent.project_id), _rule_form(sent)
    if form.keys() <= {"min_runs"}:
        raise InvalidAlertRule("Set a threshold or a comparison with the usual hour, or delete these rules.")
    await rule_edit.set_rules(session, at.by, sent.project_id, form, at.now)


async def _remove_rules(at: At, one: ManagedAlertRule) -> None:
    await rule_edit.set_rules(await at.cell(one.project_id), at.by, one.project_id, {}, at.now)


CHANNELS = Kind(
    "alertChannels",
    ManagedAlertChannel,
    ("project_id", "address"),
    Scope.ALERTS_WRITE,
    _channels,
    _save_channel,
    _remove_channel,
    _normal_channel,
)
RULES = Kind(
    "alertRules",
    ManagedAlertRule,
    ("project_id",),
    Scope.ALERTS_WRITE,
    _rules,
    _save_rules,
    _remove_rules,
    form={name: camel(ours) for name, ours in _RULES.items()},
)
