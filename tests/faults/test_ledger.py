"""The storm's judge: it finds every broken promise that it is there for."""

from datetime import UTC, datetime
from itertools import islice

import pytest

from tests.faults.ledger import Content, Key, Ledger, content_of
from tests.faults.plan import TURN, posts, strikes

NOW = datetime(2026, 11, 20, tzinfo=UTC)
RUN = {
    "runId": "a",
    "provider": "p",
    "model": "m",
    "inputTokens": 1,
    "outputTokens": 2,
    "latencyMs": 3,
    "status": "error",
    "timestamp": "2026-11-20T00:00:00+00:00",
}
STORED = ("p", "a"), content_of(RUN)


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        ([STORED], []),
        ([], ["1 runs were acknowledged and not stored: p/a"]),
        ([STORED, STORED], ["1 runs are stored twice"]),
        ([STORED, (("p", "bad"), ())], ["1 runs were refused and stored: p/bad"]),
        ([STORED, (("p", "new"), ())], ["1 runs were stored and never acknowledged: p/new"]),
        ([(("p", "a"), ("other",))], ["1 runs were stored with other content: p/a"]),
    ],
    ids=["kept", "lost", "twice", "refused", "made-up", "changed"],
)
def test_every_broken_promise_is_found(stored: list[tuple[Key, Content]], found: list[str]) -> None:
    ledger = Ledger()
    ledger.acknowledge("p", [RUN])
    ledger.refuse("p", [RUN | {"runId": "bad"}])

    assert ledger.differences(stored) == found


def test_what_is_dropped_still_counts_in_the_sums_and_must_be_gone() -> None:
    ledger = Ledger()
    ledger.acknowledge("p", [RUN, RUN | {"runId": "old", "timestamp": "2026-10-20T00:00:00Z"}])
    ledger.acknowledge("q", [RUN | {"timestamp": "2026-10-20T00:00:00Z"}])

    assert ledger.sums() == {
        "p": {"runs": 2, "input_tokens": 2, "output_tokens": 4},
        "q": {"runs": 1, "input_tokens": 1, "output_tokens": 2},
    }
    assert ledger.drop("p", NOW) == 1
    assert ledger.differences([STORED]) == ["1 runs were acknowledged and not stored: q/a"]
    assert "1 runs were stored and never acknowledged: p/old" in ledger.differences([STORED, (("p", "old"), ())])


def test_a_seed_makes_the_same_storm_again_with_every_kind_of_fault() -> None:
    storm = strikes(7, len(TURN), 1000)

    assert storm == strikes(7, len(TURN), 1000) != strikes(8, len(TURN), 1000)
    assert {strike.fault for strike in storm} == set(TURN)
    assert list(islice(posts(7, NOW), 20)) == list(islice(posts(7, NOW), 20))
