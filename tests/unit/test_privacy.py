"""The content rule over any metadata."""

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtally.fields import MAX_METADATA_KEYS
from runtally.privacy import _INVISIBLE, ContentRule
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

system tool_call_2 toolCall1 reasoning reasoning_content reasoningContent message.reasoning_content delta.reasoning_content reasoning_details thinking
thinking_blocks assistant_thinking thought chain_of_thought chainOfThought scratchpad history conversation_history
message_history history.0 dialogue tool_call toolCall tool_use gen_ai.tool.call llm.tool_call.function ai_tool_call
tool_arguments function_arguments tool_results gen_ai.tool.result gen_ai_tool_result x.chat.history a.function.call
llm.tool.calls generated_text final_answer previous_messages request_body agent_reply openai_response refusal

LLMPrompt LLMPromptText HTTPResponseBody prompt_raw prompt_v2 prompt_str promptString rendered_prompt
compiledPrompt formatted_prompt my_prompt the_prompt our_prompt base_prompt promptPreview prompt_preview msgs raw_request
tool_args tool.parameters few_shot_examples retrieved_context retrievedDocuments mlflow.spanInputs mlflow.spanOutputs
""")
KEPT = names("""
prompt_version promptVersion v raw string userID LLMModel HTTPRoute rawCost http_base_url model_license_text gen_ai.system gen_ai.provider.name gen_ai.operation.name gen_ai.request.model gen_ai.request.max_tokens gen_ai.response.id
gen_ai.response.model gen_ai.response.finish_reasons gen_ai.usage.input_tokens gen_ai.usage.output_tokens
gen_ai.usage.cache_read.input_tokens gen_ai.token.type gen_ai.output.type gen_ai.conversation.id gen_ai.tool.name
gen_ai.prompt.0.role gen_ai.completion.0.finish_reason http.response.status_code http.request.body.size db.system

llm.system llm_system ai.chat_system llm.provider llm.model_name llm.token_count.total
llm.token_count.prompt_details.cache_read session.id user.id input.mime_type output.mime_type
llm.prompt_template.version

traceloop.workflow.name traceloop.prompt.key traceloop.prompt.version llm.usage.total_tokens llm.request.type

langsmith.trace.name langsmith.span.kind ls_model_name ls_provider revision_id

input_tokens prompt_tokens completion_tokens total_tokens inputTokens promptTokenCount cached_input_tokens input.tokens
prompt_id promptId contents_hash text_embedding_model query_model env region

llm_system ai.chat_system reasoning_effort reasoning_tokens thinking_budget thinking_enabled thinking.type history_length
history.length tool_call_id toolCallId tool_calls_count gen_ai.tool.call.id gen_ai.tool.call.name tool_name function_name
conversation conversation_id tool_choice agent_name request_id session_id
""")
WHOSE = names("""
agent ai anthropic assistant base bot chat claude compiled conversation current customer developer final first formatted full
function gemini gen generated gpt http human initial last llm model my new openai original our previous prior raw rendered request
session system the tool user
""")
FACTS = names("""
finish_reason finishReasons hash id key length mime_type model name role size status_code type version
""")
COUNTS = names("""
llm.token_count.prompt llm.token_count.completion llm.cost.prompt llm.cost.completion_details.output usage.prompt
usage.completion usage_details.input tokens.output llm.token_count.completion_details.reasoning
""")


@pytest.mark.parametrize("key", CONTENT)
def test_content_is_dropped_under_the_names_that_tracers_give_it(key: str) -> None:
    assert RULE.scrub({key: CANARY}).metadata == {}
    # Not even a number: it may be one that somebody sent to a model.
    assert RULE.scrub({"attributes": {key: 7}}).metadata == {"attributes": {}}


@pytest.mark.parametrize("key", KEPT)
def test_facts_of_tracers_about_a_call_are_kept(key: str) -> None:
    assert not RULE.scrub({key: "gpt-4o"}).dropped


@pytest.mark.parametrize("key", COUNTS)
def test_a_count_is_kept_although_it_is_named_after_content(key: str) -> None:
    for count in (12, 1.5, Decimal("0.0012"), "12", None):
        assert not RULE.scrub({key: count}).dropped


@pytest.mark.parametrize("key", COUNTS)
def test_under_the_name_of_a_count_nothing_but_a_number_is_kept(key: str) -> None:
    for content in (
        CANARY,
        {"text": CANARY},
        {"tokens": CANARY},
        {"n": 5, "text": CANARY},
        [CANARY],
        [15339, 1917],
        "",
    ):
        assert RULE.scrub({key: content}).metadata == {}


@pytest.mark.parametrize("fact", FACTS)
def test_a_fact_about_content_is_kept(fact: str) -> None:
    assert not RULE.scrub({f"gen_ai.completion.{fact}": "stop"}).dropped


@pytest.mark.parametrize("word", names("usage token tokens cost costs count counts"))
def test_a_number_that_is_counted_of_content_is_kept(word: str) -> None:
    assert not RULE.scrub({f"{word}.prompt": 12, f"prompt_{word}": 12}).dropped


def test_every_name_of_content_is_content_with_a_word_before_or_behind_it() -> None:
    """Also one of several words, of which the last alone is content too: `chain_of_thought`."""
    keys = [
        form.format(name)
        for name in CONTENT_NAMES
        # Behind another word this one means the provider.
        if name != "system"
        for form in ("user_{}", "llm_user_{}", "{}_raw", "{}_v2", "x.final-{}", "a.{}_str.0")
    ]

    assert [key for key in keys if RULE.scrub({key: CANARY}).metadata] == []


@pytest.mark.parametrize("qualifier", WHOSE)
def test_content_is_content_whosever_it_is(qualifier: str) -> None:
    for key in (f"{qualifier}_prompt", f"{qualifier}Response", f"x.{qualifier}-tool-call"):
        assert RULE.scrub({key: CANARY}).metadata == {}, key
    # Also where the operator names no other content.
    assert ContentRule.of(PrivacyMode.DEFAULT, ["prompt"]).scrub({f"{qualifier}_prompt": CANARY}).metadata == {}


DISGUISES = {
    "full-width letters": "\uff50\uff52\uff4f\uff4d\uff50\uff54",
    "letters of mathematics": "\U0001d429\U0001d42b\U0001d428\U0001d426\U0001d429\U0001d42d",
    "a zero-width space": "pro\u200bmpt",
    "a zero-width joiner in a path": "gen_ai.pro\u200dmpt.0.content_\u2060id.prompt",
    "a soft hyphen": "\xadprompt",
    "a byte order mark": "\ufeffprompt",
    "a variation selector": "prompt\ufe0f",
    "tags": "pro\U000e0070mpt",
    "a filler": "\u3164prompt",
    "accents": "p\u0301ro\u0308mpt",
    "letters with accents": "pr\xf6m\u1e57t",
    "blanks of other widths": "\u3000system\u2003prompt\xa0",
    "other hyphens": "system\u2011prompt",
    "other signs": "(prompt)",
    "between arrows": "llm\u2192prompt",
    "a quotation": "'prompt'",
    "upper case": "PROMPT",
}


@pytest.mark.parametrize("key", DISGUISES.values(), ids=DISGUISES)
def test_content_is_known_in_disguise(key: str) -> None:
    assert RULE.scrub({key: CANARY}).metadata == {}
    assert RULE.scrub({"a": {key: CANARY}}).metadata == {"a": {}}
    assert not RULE.is_plain({key: CANARY})


FLOODS = {
    "accents": "\u0301\u0316",
    "accents in disorder": "\u0316" + "\u0301",
    "ligatures": "\ufdfa",
    "words": "aB",
    "segments": "a.",
    "words of content": "prompt_",
    "separators": "_",
    "nothing visible": "\u200b",
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_no_key_takes_a_time_that_grows_with_its_square(flood: str) -> None:
    def seconds(times: int) -> float:
        before = time.process_time()
        RULE.scrub({f"x{flood * times}": CANARY})
        return time.process_time() - before

    # Four times as long takes four times as long; of what is quadratic, sixteen. Other work only ever adds to a measurement, so
    # the shortest of several counts, and both lengths are measured until they agree or have had their tries.
    shorts: list[float] = []
    longs: list[float] = []
    while len(longs) < 5 or (min(longs) > 8 * min(shorts) and len(longs) < 30):
        shorts.append(seconds(8_000))
        longs.append(seconds(32_000))
    assert min(longs) <= 8 * min(shorts)


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
def test_content_is_dropped_and_everything_else_is_kept(clean: dict[str, Any], keys: list[str]) -> None:
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
def test_plain_metadata_is_flat_and_keeps_all_its_values(metadata: dict[str, Any]) -> None:
    nested = any(isinstance(value, dict | list) for value in metadata.values())
    # An object within makes the rule look at each key.
    drops = RULE.scrub(metadata | {"env": {}}).dropped

    assert RULE.is_plain(metadata) == (not nested and not drops)


@pytest.mark.parametrize(
    ("content_key", "key"),
    [
        (
            "\u043f\u043e\u0434\u0441\u043a\u0430\u0437\u043a\u0430",
            "x.\u043f\u043e\u0434\u0441\u043a\u0430\u0437\u043a\u0430",
        ),
        ("field7", "x.field7"),
        # It is named as content, and only then as a count.
        ("tokens", "prompt_tokens"),
    ],
)
def test_what_the_settings_name_as_content_is_content_in_longer_keys_too(content_key: str, key: str) -> None:
    rule = ContentRule.of(PrivacyMode.DEFAULT, ["prompt", content_key])

    assert rule.scrub({key: CANARY}).metadata == {}


def test_metadata_with_too_many_keys_is_not_plain() -> None:
    assert not RULE.is_plain({f"k{number}": None for number in range(MAX_METADATA_KEYS + 1)})


def test_the_rule_does_not_modify_its_input() -> None:
    sent = {"prompt": CANARY}

    RULE.scrub(sent)

    assert sent == {"prompt": CANARY}


def test_all_4174_characters_that_unicode_calls_ignorable_are_invisible_and_no_other() -> None:
    """Their number is that of DerivedCoreProperties.txt; the ends of its ranges, and their neighbours, were read there."""
    assert len(_INVISIBLE) == 4174
    for first, last in (
        "\xad\xad",
        "\u115f\u1160",
        "\u3164\u3164",
        "\ufe00\ufe0f",
        "\ufff0\ufff8",
        "\U000e0000\U000e0fff",
    ):
        around = {chr(ord(first) - 1), first, last, chr(ord(last) + 1)}
        assert {char for char in around if ord(char) in _INVISIBLE} == {first, last}


@pytest.mark.parametrize(
    ("mode", "refuses", "keeps_preview"),
    [
        (PrivacyMode.DEFAULT, False, True),
        (PrivacyMode.STRICT, False, False),
        (PrivacyMode.REJECT, True, False),
        (PrivacyMode.OFF_METADATA_SCRUB, False, True),
    ],
)
def test_what_a_mode_says_of_prompts_and_previews(mode: PrivacyMode, *, refuses: bool, keeps_preview: bool) -> None:
    rule = ContentRule.of(mode, ["prompt"])

    assert (rule.refuses_content, rule.keeps_preview) == (refuses, keeps_preview)
    assert bool(rule.content_keys) is (mode is not PrivacyMode.OFF_METADATA_SCRUB)
