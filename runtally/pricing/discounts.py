"""Create and end discounts of projects, as people enter them. `discount` applies them to a price."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.errors import InvalidPrice, NotFound
from runtally.fields import MAX_NAME
from runtally.models.price import ProjectDiscount
from runtally.money import entered
from runtally.pricing.draft import Check
from runtally.pricing.entries import lock, overlap
from runtally.pricing.providers import provider_key

MAX_PERCENT = 100
DECIMALS = 2
SHOWN = ("provider", "percent", "effective_from", "effective_to", "note")


async def list_of_project(session: AsyncSession, project_id: str) -> Sequence[ProjectDiscount]:
    """List the project's discounts, the latest start first."""
    query = select(ProjectDiscount).where(ProjectDiscount.project_id == project_id)
    return (await session.exec(query.order_by(col(ProjectDiscount.effective_from).desc().nulls_last()))).all()


async def add(
    session: AsyncSession, by: Actor, project_id: str, sent: Mapping[str, str], now: datetime
) -> ProjectDiscount:
    """Add the discount that a form describes.

    Raises `InvalidPrice` with every field that is wrong, or with the discount that it conflicts with.
    """
    await lock(session)
    discount = _read(project_id, sent, by, now)
    for other in await list_of_project(session, project_id):
        if other.provider == discount.provider and overlap(other, discount):
            raise InvalidPrice.at(
                "effective_from", "Another discount holds at that time; end it first, or choose other times."
            )
    session.add(discount)
    await session.flush()
    record(session, by, Change("discount.added", _target(discount), project_id, after=_shown(discount)))
    return discount


async def end(session: AsyncSession, by: Actor, discount_id: int, now: datetime) -> None:
    """End the discount now; one that has not begun is deleted. Raises `NotFound`."""
    await lock(session)
    discount = await session.get(ProjectDiscount, discount_id)
    if discount is None:
        raise NotFound("There is no such discount; it may have been ended before it began.")
    before = _shown(discount)
    if discount.effective_from is not None and discount.effective_from >= now:
        await session.delete(discount)
    else:
        discount.effective_to = now
        discount.updated_at = now
        session.add(discount)
    record(
        session,
        by,
        Change("discount.ended", _target(discount), discount.project_id, before, before | {"effective_to": now}),
    )


def _read(project_id: str, sent: Mapping[str, str], by: Actor, now: datetime) -> ProjectDiscount:
    check = Check(sent)
    provider, note = check.text("provider"), check.note()
    start, end_ = check.time("effective_from"), check.time("effective_to")
    percent = entered(check.text("percent").removesuffix("%"), DECIMALS) or Decimal(0)
    if not 0 < percent <= MAX_PERCENT:
        check.fail("percent", "Give a number above 0, up to 100, with at most two decimals.")
    if len(provider) > MAX_NAME:
        check.fail("provider", f"Give a name of at most {MAX_NAME} characters.")
    if start and end_ and start >= end_:
        check.fail("effective_to", "The end must come after the start.")
    check.done()
    return ProjectDiscount(
        project_id=project_id,
        provider=provider_key(provider) if provider else None,
        percent=percent,
        effective_from=start,
        effective_to=end_,
        note=note,
        author=by.label or by.name,
        created_at=now,
        updated_at=now,
    )


def _target(discount: ProjectDiscount) -> str:
    return discount.provider or "all providers"


def _shown(discount: ProjectDiscount) -> dict[str, object]:
    return {name: getattr(discount, name) for name in SHOWN}
