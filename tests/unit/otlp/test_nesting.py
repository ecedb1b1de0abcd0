"""Calls that are one inside another."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from runtally.otlp.calls import Call
from runtally.otlp.nesting import Lineage, brief, keep_innermost
from runtally.otlp.values import Attributes, Span
from tests.unit.otlp.factories import RESOURCE, key_of, make_call


def lineage(*links: tuple[int, int], tools: Mapping[int, Attributes] = MappingProxyType({})) -> Lineage:
    """Spans, each with the one above it."""
    found = Lineage()
    for span, parent in links:
        key, above = key_of(span), key_of(parent)
        found.add(Span(RESOURCE, "a", key[:16], key[16:], above[16:], attributes=tools.get(span, {})), "p")
    return found


def numbers(calls: Sequence[Call]) -> list[int]:
    return [int.from_bytes(call.key[16:], "big") for call in calls]


def test_the_innermost_of_nested_calls_stays_also_through_spans_between() -> None:
    calls = [make_call(1), make_call(3, parent=2), make_call(4)]

    inner = keep_innermost(calls, lineage((3, 2), (2, 1)), {})

    assert numbers(inner) == [3, 4]


def test_attempts_side_by_side_all_stay() -> None:
    calls = [make_call(2, parent=1), make_call(3, parent=1)]

    inner = keep_innermost(calls, lineage((2, 1), (3, 1)), {})

    assert numbers(inner) == [2, 3]
    assert [call.parent_id for call in inner] == [key_of(1)[16:]] * 2


def test_the_inner_call_is_filled_from_the_outer_one() -> None:
    calls = [make_call(1, cost=5, session="s", agent="a", first_token=9), make_call(2, parent=1, session="own")]

    (inner,) = keep_innermost(calls, lineage((2, 1)), {})

    assert inner.facts | {"cost": 5, "session": "own", "agent": "a", "first_token": 9} == inner.facts
    assert inner.parent_id == b""


def test_the_cost_of_an_outer_call_is_not_copied_to_several_inner_ones() -> None:
    calls = [make_call(1, cost=5, session="s"), make_call(2, parent=1), make_call(3, parent=1)]

    inner = keep_innermost(calls, lineage((2, 1), (3, 1)), {})

    assert [call.facts.get("cost") for call in inner] == [None, None]
    assert [call.facts["session"] for call in inner] == ["s", "s"]


def test_the_parent_of_a_call_is_a_kept_call() -> None:
    calls = [make_call(2, parent=1), make_call(3, parent=2)]

    (inner,) = keep_innermost(calls, lineage((3, 2), (2, 1)), {})

    assert inner.parent_id == key_of(1)[16:]


def test_a_span_that_is_above_a_stored_call_is_taken_and_so_are_those_above_it() -> None:
    calls = [make_call(1), make_call(2, parent=1), make_call(4)]

    inner = keep_innermost(calls, lineage((2, 1)), {key_of(2): (brief(make_call(3)),)})

    assert numbers(inner) == [4]


OTHER_CALLS: dict[str, dict[str, Any]] = {
    "an embedding": {"model": "text-embedding-3-small", "input": 7, "output": None},
    "another model": {"model": "gpt-4o-mini", "input": 7, "output": 3},
    "another provider's model without counts": {
        "model": "claude-x",
        "provider": "anthropic",
        "input": None,
        "output": None,
    },
}


@pytest.mark.parametrize("facts", OTHER_CALLS.values(), ids=OTHER_CALLS.keys())
@pytest.mark.parametrize("is_stored", [False, True], ids=["in one request", "stored before"])
def test_a_call_that_a_tool_of_another_made_is_a_call_of_its_own(facts: dict[str, Any], *, is_stored: bool) -> None:
    outer = make_call(1, model="gpt-4o", provider="openai")
    inner = make_call(3, parent=2, **facts)
    inner.facts = {name: value for name, value in inner.facts.items() if value is not None}
    links = lineage((3, 2), (2, 1)) if not is_stored else lineage((2, 1))

    calls = keep_innermost(
        [outer] if is_stored else [outer, inner], links, {key_of(2): (brief(inner),)} if is_stored else {}
    )

    assert sorted(numbers(calls)) == ([1] if is_stored else [1, 3])
    assert (outer.tokens, inner.facts.get("input")) == ((100, 50), facts["input"])


RUNS_OF_TOOLS: tuple[Attributes, ...] = (
    {"gen_ai.operation.name": "execute_tool"},
    {"openinference.span.kind": "TOOL"},
    {"traceloop.span.kind": "tool"},
    {"ai.operationId": "ai.toolCall"},
)


@pytest.mark.parametrize("tool", RUNS_OF_TOOLS, ids=str)
@pytest.mark.parametrize("is_stored", [False, True], ids=["in one request", "stored before"])
def test_what_an_agent_calls_that_is_a_tool_is_no_part_of_the_call_that_asked_for_it(
    tool: Attributes, *, is_stored: bool
) -> None:
    outer, inner = make_call(1), make_call(4, parent=3)
    links = lineage((2, 1), *(() if is_stored else ((4, 3), (3, 2))), tools={2: tool})

    calls = keep_innermost([outer, *(() if is_stored else (inner,))], links, {key_of(2): (brief(inner),)})

    assert sorted(numbers(calls)) == ([1] if is_stored else [1, 4])


SAME_CALLS: dict[str, dict[str, Any]] = {
    "a dated name": {"model": "gpt-4o-2024-08-06", "input": 90},
    "a deployment with the same counts": {"model": "our-model"},
    "a longer name without counts": {"model": "gpt-4o-ours", "input": None, "output": None},
}


@pytest.mark.parametrize("facts", SAME_CALLS.values(), ids=SAME_CALLS.keys())
@pytest.mark.parametrize("is_stored", [False, True], ids=["in one request", "stored before"])
def test_a_record_of_the_same_call_under_another_name_is_taken(facts: dict[str, Any], *, is_stored: bool) -> None:
    outer = make_call(1, model="gpt-4o", provider="openai")
    inner = make_call(3, parent=1, **facts)
    inner.facts = {name: value for name, value in inner.facts.items() if value is not None}

    calls = keep_innermost(
        [outer] if is_stored else [outer, inner], lineage((3, 1)), {key_of(1): (brief(inner),)} if is_stored else {}
    )

    assert numbers(calls) == ([] if is_stored else [3])


def test_a_circle_of_parents_ends() -> None:
    calls = [make_call(number) for number in (1, 2, 3)]

    inner = keep_innermost(calls, lineage((1, 2), (2, 3), (3, 1)), {})

    assert numbers(inner) == []


def test_its_own_parent_is_no_parent() -> None:
    inner = keep_innermost([make_call(1)], lineage((1, 1)), {})

    assert numbers(inner) == [1]


def test_a_chain_as_long_as_a_request_is_walked_once() -> None:
    links = [(number + 1, number) for number in range(1, 5_000)]
    calls = [make_call(number) for number in range(1, 5_001)]

    inner = keep_innermost(calls, lineage(*links), {})

    assert numbers(inner) == [5_000]
