"""Each test takes time in each process, also where it is not run: what holds for hundreds of things is one test with a list of exceptions."""

from collections import Counter

import pytest

MOST = 250


def test_no_test_has_hundreds_of_parameters(request: pytest.FixtureRequest) -> None:
    parameters = Counter(item.nodeid.partition("[")[0] for item in request.session.items)

    assert {test: number for test, number in parameters.items() if number > MOST} == {}
