"""The content rule over any metadata."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtally.privacy import ContentRule
from runtally.settings import CONTENT_KEYS, PrivacyMode

CANARY = "canary-7f3a"
RULE = ContentRule.of(PrivacyMode.DEFAULT, CONTENT_KEYS)
harmless_keys = st.sampled_from(["env", "region", "usage", "input_tokens", "promptId", "contents_hash"])
spellings = st.sampled_from(CONTENT_KEYS).flatmap(
    lambda key: st.sampled_from([key, key.upper(), key.title(), key.replace("_", "-"), key.replace("_", ".")])
)
harmless = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(harmless_keys, inner, max_size=3),
    max_leaves=8,
)


def with_content(value: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401  # Any JSON value.
    """The value with a content key put into each of its objects."""
    if isinstance(value, dict):
        return spellings.flatmap(
            lambda key: st.fixed_dictionaries({name: with_content(item) for name, item in value.items()}).map(
                lambda rest: rest | {key: {"nested": CANARY}}
            )
        )
    return st.tuples(*map(with_content, value)).map(list) if isinstance(value, list) else st.just(value)


@given(
    st.dictionaries(harmless_keys, harmless, max_size=4).flatmap(
        lambda value: st.tuples(st.just(value), with_content(value))
    )
)
def test_content_goes_and_everything_else_stays(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    clean, sent = case

    scrubbed = RULE.scrub(sent)

    assert scrubbed.metadata == clean
    assert scrubbed.dropped
    assert CANARY not in json.dumps(scrubbed.metadata)


@given(st.dictionaries(harmless_keys, harmless, max_size=4))
def test_metadata_without_content_is_untouched(metadata: dict[str, Any]) -> None:
    scrubbed = RULE.scrub(metadata)

    assert scrubbed.metadata == metadata
    assert not scrubbed.dropped


def test_the_rule_does_not_change_what_it_is_given() -> None:
    sent = {"prompt": CANARY}

    RULE.scrub(sent)

    assert sent == {"prompt": CANARY}
