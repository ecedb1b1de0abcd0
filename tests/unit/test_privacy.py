"""The content rule over any metadata."""

import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.fields import MAX_METADATA_KEYS
from runtally.privacy import ContentRule
from runtally.settings import CONTENT_KEYS, PrivacyMode

CANARY = "canary-7f3a"
CONTENT_NAMES = CONTENT_KEYS.split(",")
RULE = ContentRule.of(PrivacyMode.DEFAULT, CONTENT_NAMES)


def names(text: str) -> list[str]:
    return text.split()


# As the instrumentations write them: OpenTelemetry GenAI, OpenInference, Traceloop and LangSmith.
CONTENT = names("""
gen_ai.prompt gen_ai.completion gen_ai.prompt.0.content gen_ai.completion.0.content gen_ai.completion.0.tool_calls.0.arguments
gen_ai.input.messages gen_ai.output.messages gen_ai.system_instructions gen_ai.tool.call.arguments gen_ai.tool.call.result
gen_ai.content.prompt gen_ai.content.completion gen_ai.user.message gen_ai.system.message gen_ai.choice.message.content

input.value output.value llm.prompts llm.prompts.0.prompt.text llm.input_messages.0.message.content llm.function_call
llm.output_messages.0.message.content llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments
llm.input_messages.0.message.contents.0.message_content.text llm.prompt_template.template llm.prompt_template.variables
retrieval.documents.0.document.content reranker.query reranker.input_documents.0.document.content embedding.text
embedding.embeddings.0.embedding.text audio.transcript

traceloop.entity.input traceloop.entity.output traceloop.prompt.template traceloop.prompt.template_variables
llm.request.functions.0.arguments llm.completions.0.content

inputs outputs inputs.messages outputs.generations.0.0.text inputs/question outputs:answer gen_ai.prompt[0].content

input:value input_text prompt_text output_text completion_text responseText PROMPT_TEXT prompt_0 message2 user_prompt
system_message lastUserMessage raw_response llm_output chat_history chatMessages
""")
KEPT = names("""
gen_ai.system gen_ai.provider.name gen_ai.operation.name gen_ai.request.model gen_ai.request.max_tokens gen_ai.response.id
gen_ai.response.model gen_ai.response.finish_reasons gen_ai.usage.input_tokens gen_ai.usage.output_tokens
gen_ai.usage.cache_read.input_tokens gen_ai.token.type gen_ai.output.type gen_ai.conversation.id gen_ai.tool.name
gen_ai.prompt.0.role gen_ai.completion.0.finish_reason http.response.status_code http.request.body.size db.system

llm.system llm.provider llm.model_name llm.token_count.total
llm.token_count.prompt_details.cache_read llm.token_count.completion_details.reasoning session.id user.id input.mime_type output.mime_type
llm.prompt_template.version

traceloop.workflow.name traceloop.prompt.key traceloop.prompt.version llm.usage.total_tokens llm.request.type

langsmith.trace.name langsmith.span.kind ls_model_name ls_provider revision_id

input_tokens prompt_tokens completion_tokens total_tokens inputTokens promptTokenCount cached_input_tokens input.tokens
prompt_id promptId contents_hash text_embedding_model query_model env region
""")
COUNTS = names("""
llm.token_count.prompt llm.token_count.completion llm.cost.prompt llm.cost.completion_details.output usage.prompt
usage.completion usage_details.input tokens.output
""")


@pytest.mark.parametrize("key", CONTENT)
def test_content_is_dropped_under_the_names_that_tracers_give_it(key: str) -> None:
    assert RULE.scrub({key: CANARY}).metadata == {}
    # Not even a number: it may be one that somebody sent to a model.
    assert RULE.scrub({"attributes": {key: 7}}).metadata == {"attributes": {}}


@pytest.mark.parametrize("key", KEPT)
def test_what_tracers_say_about_a_call_is_kept(key: str) -> None:
    assert not RULE.scrub({key: "gpt-4o"}).dropped


@pytest.mark.parametrize("key", COUNTS)
def test_a_number_is_kept_although_it_is_named_after_what_is_counted(key: str) -> None:
    for count in (12, 1.5, Decimal("0.0012"), "12", None):
        assert not RULE.scrub({key: count}).dropped


@pytest.mark.parametrize("key", COUNTS)
def test_under_the_name_of_a_count_nothing_but_a_number_is_kept(key: str) -> None:
    for content in (CANARY, {"text": CANARY}, {"tokens": CANARY}, [CANARY], [15339, 1917], ""):
        assert RULE.scrub({key: content}).metadata == {}


def test_counts_in_objects_are_kept_and_content_among_them_is_not() -> None:
    usage = {"input": 5, "output": {"text": 3, "audio": 0}, "prompt_tokens_details": {"cached": 2}, "total_cost": 0.5}

    assert RULE.scrub({"usage": usage | {"completion": CANARY}}).metadata == {"usage": usage}
    assert RULE.scrub({"usageDetails": {"input": 5}, "tokens": [{"output": 3}]}).dropped is False
    assert RULE.scrub({"response": {"usage": {"input": 5}}}).metadata == {}


def test_the_settings_say_which_names_are_content() -> None:
    rule = ContentRule.of(PrivacyMode.DEFAULT, ["Notes", "case_file"])

    assert rule.scrub({"doctor.notes": 1, "caseFile": 2, "case.file": 3, "user_notes": 4, "prompt": 5}).metadata == {
        "prompt": 5
    }


def test_a_key_of_any_length_is_understood() -> None:
    key = "a." * 5000 + "prompt"

    assert RULE.scrub({key: CANARY}).metadata == {}
    assert not RULE.scrub({key + "_id": CANARY}).dropped


harmless_keys = st.sampled_from(
    ["env", "region", "usage", "input_tokens", "promptId", "contents_hash", "gen_ai.system"]
)
harmless = st.recursive(
    st.sampled_from([None, True, 7, "word"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(harmless_keys, inner, max_size=2),
    max_leaves=5,
)
objects = st.dictionaries(harmless_keys, harmless, max_size=3)
spellings = st.builds(
    lambda name, spelt: spelt(name),
    st.sampled_from(CONTENT_NAMES),
    st.sampled_from(
        [str, str.upper, str.title, lambda name: name.replace("_", "-"), lambda name: name.replace("_", ".")]
    ),
)


def with_content(value: Any, keys: Iterator[str]) -> Any:  # noqa: ANN401  # Any JSON value.
    """The value with a content key put into each of its objects."""
    if isinstance(value, dict):
        return {name: with_content(item, keys) for name, item in value.items()} | {next(keys): {"nested": CANARY}}
    return [with_content(item, keys) for item in value] if isinstance(value, list) else value


@given(objects, st.lists(spellings, min_size=1, max_size=3))
def test_content_goes_and_everything_else_stays(clean: dict[str, Any], keys: list[str]) -> None:
    scrubbed = RULE.scrub(with_content(clean, cycle(keys)))

    assert scrubbed.metadata == clean
    assert scrubbed.dropped
    assert CANARY not in json.dumps(scrubbed.metadata)


@given(objects)
def test_metadata_without_content_is_untouched(metadata: dict[str, Any]) -> None:
    scrubbed = RULE.scrub(metadata)

    assert scrubbed.metadata == metadata
    assert not scrubbed.dropped


@given(st.dictionaries(harmless_keys | spellings, harmless, max_size=3))
def test_plain_is_what_is_flat_and_kept_whole(metadata: dict[str, Any]) -> None:
    nested = any(isinstance(value, dict | list) for value in metadata.values())
    # An object within makes the rule look at each key.
    drops = RULE.scrub(metadata | {"env": {}}).dropped

    assert RULE.is_plain(metadata) == (not nested and not drops)


def test_what_has_too_many_keys_is_not_plain() -> None:
    assert not RULE.is_plain({f"k{number}": None for number in range(MAX_METADATA_KEYS + 1)})


def test_the_rule_does_not_change_what_it_is_given() -> None:
    sent = {"prompt": CANARY}

    RULE.scrub(sent)

    assert sent == {"prompt": CANARY}
