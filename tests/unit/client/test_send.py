"""Many batches at once, and the account of what became of them."""

import asyncio
from collections.abc import Sequence

import pytest

from runtally.client.post import IN_FLIGHT, SHOWN_REJECTIONS, Batch, Receipt, RejectedRun, Rejection, Totals, send_all
from runtally.client.run import OutgoingRun, RequestRefused
from runtally.errors import Detail


class Desk:
    """Takes batches, remembers how many were in its hands at once, and refuses the one that a test names."""

    def __init__(self, refuse: int | None = None) -> None:
        self.taken: list[str] = []
        self.at_once: list[int] = []
        self._in_hand = 0
        self._refuse = refuse

    async def post(self, project_id: str, runs: Sequence[OutgoingRun]) -> Receipt:
        self._in_hand += 1
        self.at_once.append(self._in_hand)
        # Lets the other requests begin.
        await asyncio.sleep(0)
        self._in_hand -= 1
        if len(self.taken) == self._refuse:
            raise RequestRefused
        self.taken.append(project_id)
        return Receipt(processed=len(runs), duplicates=1)


def batches(count: int) -> list[Batch]:
    run = OutgoingRun(run_id="a", provider="openai", model="gpt-4o-mini")
    return [Batch(f"project-{number}", [run, run]) for number in range(count)]


async def test_every_batch_is_posted_once_and_counted() -> None:
    desk, totals = Desk(), Totals()

    await send_all(desk, batches(11), totals)

    assert sorted(desk.taken) == sorted(f"project-{number}" for number in range(11))
    assert (totals.processed, totals.duplicates, totals.added, totals.rejected) == (22, 11, 11, 0)
    assert totals.by_project["project-3"] == 2


async def test_the_first_batch_goes_alone_and_then_no_more_than_a_few_at_once() -> None:
    desk = Desk()

    await send_all(desk, batches(20), Totals())

    assert desk.at_once[0] == 1
    assert max(desk.at_once) == IN_FLIGHT


async def test_the_first_error_ends_it_all() -> None:
    desk, totals = Desk(refuse=3), Totals()

    with pytest.raises(RequestRefused):
        await send_all(desk, batches(100), totals)

    assert len(desk.taken) <= 3 + IN_FLIGHT
    assert totals.processed == 2 * len(desk.taken)


async def test_no_batches_are_no_request() -> None:
    desk = Desk()

    await send_all(desk, [], Totals())

    assert desk.taken == []


def test_a_rejected_run_is_reported_by_its_line() -> None:
    totals = Totals()
    batch = Batch("shop", batches(1)[0].runs, lines=[17, 23])

    totals.count(batch, Receipt(processed=1, rejected=[RejectedRun(1, [Detail("model", "is required")])]))

    assert totals.rejected == 1
    assert totals.rejections == [Rejection(23, "model is required")]


def test_the_first_rejections_are_kept_whatever_the_order_of_the_answers() -> None:
    totals = Totals()

    for line in reversed(range(1, 101)):
        totals.reject(Rejection(line, "is no JSON"))

    assert totals.rejected == 100
    assert [rejection.line for rejection in totals.rejections] == list(range(1, SHOWN_REJECTIONS + 1))
