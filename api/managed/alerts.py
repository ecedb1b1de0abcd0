"""Where the alerts of a project go, and what sends them."""

import hashlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, ClassVar, Self

import msgspec
from msgspec import Meta

from api.managed.kind import At, Key, OfAll, Resource
from runtally.access.scopes import Scope
from runtally.alerts import rule_edit, targets
from runtally.alerts.registry import Channels
from runtally.alerts.rules import MIN_RUNS
from runtally.alerts.targets import NewTarget
from runtally.errors import InvalidAlertRule
from runtally.fields import camel
from runtally.models.alert import AlertTarget
from runtally.pricing.draft import as_text


class ManagedAlertChannel(Resource, frozen=True, kw_only=True):
    """Where alerts go. No test message is sent there."""

    kind = "alertChannels"
    keyed_by = ("project_id", "address")
    scope = Scope.ALERTS_WRITE

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

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        found = await targets.list_targets(await at.cell(project_id), project_id)
        channels = at.services.channels
        return [cls.of(one, project_id=project_id, address=_shown(channels, one.kind, one.address)) for one in found]

    def normal(self, at: At, known: Mapping[Key, Self]) -> Self:
        """Return it with the address that is shown, by which it is known, and the whole one as its secret."""
        sent = self.replace(address=self.address.strip())
        if sent.which in known:
            return sent
        channel, address = at.services.channels.recognise(sent.address)
        return sent.replace(address=_shown(at.services.channels, channel.kind, address), secret=address)

    async def save(self, at: At, before: Self | None) -> str | None:
        session, editor = await at.cell(self.project_id), at.services.cells.of(self.project_id or None).alert_targets
        new = NewTarget(str(self.secret), of_unusual_cost=self.of_unusual_cost, weekly_report=self.weekly_report)
        if before is not None:
            await editor.change(session, at.by, await self._target(at), new)
            return None
        return (await editor.add(session, at.by, self.project_id, new)).secret

    async def remove(self, at: At) -> None:
        editor = at.services.cells.of(self.project_id or None).alert_targets
        await editor.remove(await at.cell(self.project_id), at.by, await self._target(at))

    async def _target(self, at: At) -> AlertTarget:
        found = await targets.list_targets(await at.cell(self.project_id), self.project_id)
        return next(row for row in found if _shown(at.services.channels, row.kind, row.address) == self.address)


def _shown(channels: Channels, kind: str, address: str) -> str:
    """Return an address without its secret parts, as no other one is shown."""
    masked = channels[kind].mask(address)
    return masked if masked == address else f"{masked} #{hashlib.sha256(address.encode()).hexdigest()[:6]}"


_UNITS = {"error_rate": "_percent", "latency": "_ms", "cache_hit_rate": "_percent"}
"""The fields of the form whose names say no unit, and how ours go on."""


class ManagedAlertRule(Resource, frozen=True, kw_only=True):
    """What an hour of the project may be like before it alerts: by a threshold, or compared with the usual hour."""

    kind = "alertRules"
    keyed_by = ("project_id",)
    scope = Scope.ALERTS_WRITE
    form: ClassVar = {name: camel(name + unit) for name, unit in _UNITS.items()}

    error_rate_percent: Decimal | None = None
    error_rate_unusual: bool = False
    latency_ms: Decimal | None = None
    latency_unusual: bool = False
    cache_hit_rate_percent: Decimal | None = None
    cache_hit_rate_unusual: bool = False
    min_runs: Annotated[int, Meta(description="An hour with fewer runs says nothing.")] = MIN_RUNS

    @classmethod
    async def read(cls, at: At, project_id: str) -> list[Self]:
        found = await rule_edit.list_rules(await at.cell(project_id), project_id)
        # Empty texts are what is not set.
        texts = {cls.form.get(name, camel(name)): text for name, text in rule_edit.as_fields(found).items() if text}
        return [msgspec.convert({"projectId": project_id, **texts}, cls, strict=False)] if found else []

    async def save(self, at: At, _before: Self | None) -> None:
        values = {name: getattr(self, name + _UNITS.get(name, "")) for name in rule_edit.as_fields(())}
        set_ = {name: value for name, value in values.items() if value is not None and value is not False}
        texts = {name: "1" if value is True else as_text(value) for name, value in set_.items()}
        if texts.keys() <= {"min_runs"}:
            raise InvalidAlertRule("Set a threshold or a comparison with the usual hour, or delete these rules.")
        await rule_edit.set_rules(await at.cell(self.project_id), at.by, self.project_id, texts, at.now)

    async def remove(self, at: At) -> None:
        await rule_edit.set_rules(await at.cell(self.project_id), at.by, self.project_id, {}, at.now)
