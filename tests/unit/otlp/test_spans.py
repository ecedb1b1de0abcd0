"""Which spans are calls of a model."""

import pytest

from runtally.otlp import protobuf
from runtally.otlp.attributes import wanted_of_resources, wanted_of_spans
from runtally.otlp.json import read_spans
from runtally.otlp.spans import is_call
from runtally.otlp.values import Rules, Value
from tests.spans import Json, as_json, as_protobuf, chat, make_request, make_span

RULES = Rules(wanted_of_resources(frozenset()), wanted_of_spans(frozenset()))
ERROR = {"code": 2}
Case = tuple[dict[str, Value], bool]


def is_run(span: Json) -> bool:
    (read,) = read_spans(as_json(make_request(span)), RULES)
    return is_call(read)


MODEL: dict[str, Value] = {"gen_ai.request.model": "m"}
COUNT: dict[str, Value] = {"gen_ai.usage.input_tokens": 5}
SYSTEM: dict[str, Value] = {"gen_ai.system": "openai"}
CASES: dict[str, Case] = {
    "a chat": (chat(), True),
    "a chat without tokens": ({"gen_ai.operation.name": "chat", **MODEL}, True),
    "a chat of a response's model": ({"gen_ai.operation.name": "chat", "gen_ai.response.model": "m"}, True),
    "a chat without a model": ({"gen_ai.operation.name": "chat", **COUNT, **SYSTEM}, False),
    "a server's own span of vLLM, which names no model": (
        {"gen_ai.usage.prompt_tokens": 17, "gen_ai.usage.completion_tokens": 64, "gen_ai.request.id": "chatcmpl-1",
         "gen_ai.latency.e2e": 0.25, "gen_ai.latency.time_to_first_token": 0.11}, False,
    ),
    "a text completion": (chat(gen_ai__operation__name="text_completion"), True),
    "content generation": (chat(gen_ai__operation__name="generate_content"), True),
    "embeddings": (chat(gen_ai__operation__name="embeddings"), True),
    "an agent": (chat(gen_ai__operation__name="invoke_agent"), False),
    "a workflow": (chat(gen_ai__operation__name="invoke_workflow"), False),
    "an agent that is made": (chat(gen_ai__operation__name="create_agent"), False),
    "a tool": (chat(gen_ai__operation__name="execute_tool"), False),
    "a plan": (chat(gen_ai__operation__name="plan"), False),
    "a retrieval": (chat(gen_ai__operation__name="retrieval"), False),
    "a memory": (chat(gen_ai__operation__name="search_memory"), False),
    "a memory store": (chat(gen_ai__operation__name="delete_memory_store"), False),
    "an answer that is fetched": (chat(gen_ai__operation__name="fetch_response"), False),
    "another operation with tokens": (chat(gen_ai__operation__name="acompletion"), True),
    "another operation without tokens": ({"gen_ai.operation.name": "rerank", **MODEL}, False),
    "another operation without a model": ({"gen_ai.operation.name": "rerank", **COUNT}, False),
    "another operation that failed by its level": (
        {"gen_ai.operation.name": "rerank", **MODEL, "langfuse.observation.level": "ERROR"}, True,
    ),
    "a pending span of Logfire": (chat(logfire__span_type="pending_span"), False),
    "a span of Logfire": (chat(logfire__span_type="span"), True),
    "AI SDK, the call": ({"ai.operationId": "ai.generateText.doGenerate"}, True),
    "AI SDK, the stream": ({"ai.operationId": "ai.streamText.doStream"}, True),
    "AI SDK, an embedding": ({"ai.operationId": "ai.embed.doEmbed"}, True),
    "AI SDK, a reranking": ({"ai.operationId": "ai.rerank.doRerank"}, True),
    "AI SDK, around the call": (chat(ai__operationId="ai.generateText"), False),
    "AI SDK, a tool": (chat(ai__operationId="ai.toolCall"), False),
    "Langfuse, a generation": ({"langfuse.observation.type": "generation"}, True),
    "Langfuse, an embedding": ({"langfuse.observation.type": "embedding"}, True),
    "Langfuse, a span": (chat(langfuse__observation__type="span"), False),
    "Langfuse, an agent": (chat(langfuse__observation__type="agent"), False),
    "LangSmith, a model": ({"langsmith.span.kind": "llm"}, True),
    "LangSmith, a prompt that says chat": (chat(langsmith__span__kind="prompt"), False),
    "LangSmith, a retriever that says embeddings": (
        chat(langsmith__span__kind="retriever", gen_ai__operation__name="embeddings"), False,
    ),
    "OpenInference, a model": ({"openinference.span.kind": "LLM"}, True),
    "OpenInference, an embedding": ({"openinference.span.kind": "EMBEDDING"}, True),
    **{
        f"OpenInference, {kind}": ({"openinference.span.kind": kind, "llm.model_name": "m", "llm.token_count.prompt": 5}, False)
        for kind in ("CHAIN", "AGENT", "TOOL", "RETRIEVER", "RERANKER", "GUARDRAIL", "EVALUATOR")
    },
    **{
        f"old OpenLLMetry, {kind}": ({"llm.request.type": kind}, True)
        for kind in ("chat", "completion", "embedding", "rerank")
    },
    "LiteLLM without content": ({"llm.request.type": "acompletion", **MODEL, **SYSTEM, **COUNT}, True),
    "only a model, a system and tokens": ({**MODEL, **SYSTEM, **COUNT}, True),
    "only a model, a provider and tokens": ({**MODEL, "gen_ai.provider.name": "openai", **COUNT}, True),
    "only a model and a system": ({**MODEL, **SYSTEM}, False),
    "only a model and tokens": ({**MODEL, **COUNT}, False),
    "a workflow of OpenLLMetry": ({**MODEL, **SYSTEM, **COUNT, "traceloop.span.kind": "workflow"}, False),
    "attributes of one vendor": ({"llm.openai.model": "m", "llm.openai.usage": 5}, False),
    "HTTP": ({"http.request.method": "POST", "http.response.status_code": 200, "url.full": "https://api.openai.com"}, False),
    "a database": ({"db.system": "postgresql", "db.statement": "SELECT 1"}, False),
    "nothing": ({}, False),
}  # fmt: skip


@pytest.mark.parametrize(("attributes", "expected"), CASES.values(), ids=CASES.keys())
def test_a_span_is_a_call_by_the_first_rule_that_applies(attributes: dict[str, Value], expected: bool) -> None:
    assert is_run(make_span(attributes)) is expected


def test_the_raw_request_of_litellm_is_never_a_call() -> None:
    assert not is_run(make_span(name="raw_gen_ai_request"))


def test_what_llama_index_prepares_for_a_call_is_none() -> None:
    call: dict[str, Value] = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
    for name, expected in (("OpenAI._prepare_chat_with_tools", False), ("OpenAI.chat", True)):
        made = make_request(make_span(call, name=name))
        for (read,) in (read_spans(as_json(made), RULES), protobuf.read_spans(as_protobuf(made), RULES)):
            assert is_call(read) is expected


def test_an_error_stands_for_tokens() -> None:
    for attributes in ({**MODEL, **SYSTEM}, {"gen_ai.operation.name": "rerank", **MODEL}):
        assert is_run(make_span(attributes, status=ERROR))
        assert is_run(make_span(attributes, events=[{"name": "exception"}]))
