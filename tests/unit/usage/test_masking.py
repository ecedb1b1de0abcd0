"""Names of people are shown through a mask, and not at all without one."""

from contextvars import Context

import pytest

from runtally.usage import masking
from runtally.usage.dimensions import USER

BY_USER = (USER,)


def test_without_a_mask_nobody_sees_a_name_or_filters_by_one() -> None:
    for asks in (
        lambda: masking.shown_name("shop", "user", "ann"),
        lambda: masking.hidden_places("shop", BY_USER),
        lambda: masking.demand_open("shop", BY_USER),
    ):
        with pytest.raises(LookupError):
            Context().run(asks)


def test_a_job_that_says_so_sees_all_names() -> None:
    def shown() -> str:
        masking.use(masking.ALL_NAMES)
        masking.demand_open("shop", BY_USER)
        return masking.shown_name("shop", "user", "ann")

    assert Context().run(shown) == "ann"
