"""Bodies as real instrumentations send them become the runs that their calls were."""

import json as text
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import pytest

from runtally.fields import camel
from runtally.files import CHECKOUT
from runtally.models.run import StoredRun
from runtally.otlp import json, protobuf
from runtally.otlp.attributes import wanted_of_resources, wanted_of_spans
from runtally.otlp.nesting import Lineage, keep_innermost
from runtally.otlp.receive import call_of
from runtally.otlp.recent import Recent
from runtally.otlp.runs import stored_run
from runtally.otlp.spans import is_call
from runtally.otlp.twins import keep_one_of_each
from runtally.otlp.values import Rules, Span, Value
from runtally.units import TOKEN_KINDS
from tests.spans import START, Json, as_json, as_protobuf, make_span

RULES = Rules(wanted_of_resources(frozenset()), wanted_of_spans(frozenset()))
MS = 1_000_000
CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
BESIDE: dict[str, Value] = {"gen_ai.usage.cache_read.input_tokens": 401, "gen_ai.usage.cache_write.input_tokens": 198}
CHAT: dict[str, Value] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.usage.input_tokens": 2011,
    "gen_ai.usage.output_tokens": 97,
}
WHOLE = {"input_tokens": 2610, "output_tokens": 97, "cached_input_tokens": 401, "cache_write_tokens": 198}
OPENINFERENCE: dict[str, Value] = {
    "openinference.span.kind": "LLM",
    "llm.provider": "openai",
    "llm.model_name": "gpt-5-mini",
}
LITELLM: dict[str, Value] = {
    "gen_ai.request.model": "gpt-5-mini",
    "gen_ai.system": "",
    "litellm.provider.model": "openai/gpt-5-mini",
}
MASTRA: dict[str, Value] = {**CHAT, "gen_ai.provider.name": "openai.chat", "gen_ai.request.model": "gpt-5-mini"}
REFUSED = {"code": 2, "message": "no"}


def span(
    attributes: Mapping[str, Value],
    number: int = 1,
    *,
    parent: int = 0,
    start_ms: float = 0,
    ms: float = 100,
    **fields: Any,  # noqa: ANN401  # Fields of a span.
) -> Json:
    start = START + round(start_ms * MS)
    return make_span(
        attributes,
        spanId=f"{number:016x}",
        parentSpanId=f"{parent:016x}" if parent else None,
        startTimeUnixNano=str(start),
        endTimeUnixNano=str(start + round(ms * MS)),
        **fields,
    )


def scoped(name: str, *spans: Json, version: str = "") -> Json:
    return {"scope": {"name": name, "version": version}, "spans": list(spans)}


def request(*scopes: Json) -> Json:
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": list(scopes)}]}


def runs_of(*scopes: Json, recent: Recent | None = None) -> list[StoredRun]:
    body = request(*scopes)
    in_json, in_protobuf = (
        list(_runs(read, recent))
        for read in (json.read_spans(as_json(body), RULES), protobuf.read_spans(as_protobuf(body), RULES))
    )
    assert in_json == in_protobuf
    return in_json


def _runs(spans: Iterator[Span], recent: Recent | None) -> Iterator[StoredRun]:
    lineage, calls = Lineage(), []
    for each in spans:
        key = lineage.add(each, "p")
        if is_call(each):
            calls.append(call_of(each, key, "p", {}, frozenset()))
    kept = keep_innermost(calls, lineage, {})
    lineage.fill_people(kept, recent.people_of if recent else lambda *_: None)
    if recent:
        recent.add([], lineage.people)
    for call in keep_one_of_each(kept):
        run = stored_run(call)
        assert isinstance(run, StoredRun)
        yield run


def the_run(*scopes: Json) -> StoredRun:
    (run,) = runs_of(*scopes)
    return run


def has(run: StoredRun, **fields: object) -> bool:
    shown = {name: getattr(run, name) for name in fields}
    assert shown == fields
    return True


@pytest.mark.parametrize(
    ("scope", "version", "model"),
    [
        ("opentelemetry.instrumentation.genai.bedrock", "1.3b0", CLAUDE),
        ("opentelemetry.instrumentation.bedrock", "0.62.4", CLAUDE),
        ("@traceloop/instrumentation-anthropic", "0.27.0", "claude-sonnet-4-5"),
        ("openlit.instrumentation.anthropic", "", "claude-sonnet-4-5"),
        ("openlit.instrumentation.bedrock", "", CLAUDE),
        ("openinference.instrumentation.agno", "1.0.15", "claude-sonnet-4-5"),
        ("pipecat", "", "claude-sonnet-4-5"),
    ],
)
def test_scopes_that_pass_on_an_input_without_cached_tokens_are_known(scope: str, version: str, model: str) -> None:
    sent = span({**CHAT, **BESIDE, "gen_ai.provider.name": "aws.bedrock", "gen_ai.request.model": model})

    assert has(the_run(scoped(scope, sent, version=version)), **WHOLE)
    # A later version is not known, nor is any other scope.
    assert the_run(scoped(scope, sent, version="9.0.0")).input_tokens == 2011
    assert the_run(scoped("another", sent)).input_tokens == 2011


@pytest.mark.parametrize(("provider", "given"), [("Anthropic", 2610), ("AwsBedrock", 2610), ("OpenRouter", 2011)])
def test_of_claude_in_agno_only_a_gateway_counts_cached_tokens_in_the_input(provider: str, given: int) -> None:
    sent = span({**CHAT, **BESIDE, "gen_ai.provider.name": provider, "gen_ai.request.model": "claude-sonnet-4-5"})

    assert the_run(scoped("openinference.instrumentation.agno", sent, version="1.0.15")).input_tokens == given


@pytest.mark.parametrize(
    ("name", "given"),
    [("bedrock.invoke_model", 2610), ("bedrock.invoke_model_with_response_stream", 2610), ("bedrock.converse", 2011)],
)
def test_of_bedrock_in_openinference_the_spans_name_tells_what_its_input_holds(name: str, given: int) -> None:
    sent: dict[str, Value] = {
        "openinference.span.kind": "LLM",
        "llm.provider": "aws",
        "llm.model_name": "amazon.nova-lite-v1:0",
        "llm.token_count.prompt": 2011,
        "llm.token_count.completion": 97,
        "llm.token_count.prompt_details.cache_read": 401,
        "llm.token_count.prompt_details.cache_write": 198,
    }

    assert the_run(scoped("openinference.instrumentation.bedrock", span(sent, name=name))).input_tokens == given


def test_a_decision_in_openinference_is_a_run_of_what_has_its_price() -> None:
    sent: dict[str, Value] = {
        "openinference.span.kind": "DECISION",
        "decision.system": "openai",
        "decision.request.model_name": "gpt-6-luna",
        "decision.token_count.input": 3037,
        "decision.token_count.output": 411,
    }
    run = the_run(scoped("openinference.instrumentation.openai", span(sent), version="0.1.66"))

    assert (run.provider, run.model) == ("openai-decisions", "gpt-6-luna")
    assert (run.input_tokens, run.output_tokens) == (3037, 411)


@pytest.mark.parametrize(("seconds", "expected"), [(852, 852), (0.25, 250), (0.0, 0)])
def test_a_first_token_after_the_end_was_counted_in_milliseconds_and_a_framework_is_no_provider(
    seconds: float, expected: int
) -> None:
    sent: dict[str, Value] = {**CHAT, "gen_ai.system": "strands-agents", "gen_ai.request.model": CLAUDE}
    run = the_run(scoped("strands", span({**sent, "gen_ai.server.time_to_first_token": seconds}, ms=853)))

    assert has(run, provider="aws", time_to_first_token_ms=expected)


@pytest.mark.parametrize("provider", ["anthropic", "aws.bedrock"])
def test_bedrocks_name_of_a_model_is_bedrocks_although_the_vendor_in_it_is_taken_for_the_provider(
    provider: str,
) -> None:
    sent: dict[str, Value] = {**CHAT, "gen_ai.system": provider, "gen_ai.request.model": CLAUDE.removeprefix("us.")}
    assert the_run(scoped("langsmith", span(sent))).provider == "aws"


@pytest.mark.parametrize("provider", ["openai_responses_llm", "langgraph", "microsoft.agent_framework"])
def test_a_class_or_a_framework_leaves_the_provider_to_the_model(provider: str) -> None:
    assert the_run(scoped("s", span({**MASTRA, "gen_ai.provider.name": provider}))).provider == "openai"


@pytest.mark.parametrize(("model", "output"), [("gemini-2.5-flash", 1139), ("gpt-5-mini", 97)])
def test_thoughts_that_only_geminis_total_has_are_output(model: str, output: int) -> None:
    sent: dict[str, Value] = {**CHAT, "gen_ai.provider.name": "gcp.gen_ai", "gen_ai.request.model": model}

    assert the_run(scoped("s", span({**sent, "gen_ai.usage.total_tokens": 3150}))).output_tokens == output


def test_a_call_in_a_tool_of_another_call_is_a_run_of_its_own_and_no_count_moves() -> None:
    outer = span({**CHAT, "gen_ai.provider.name": "google", "gen_ai.request.model": "gemini-2.5-flash"}, 1)
    embedding: dict[str, Value] = {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.request.model": "gemini-embedding-001",
    }
    inner = span({**embedding, "gen_ai.provider.name": "google"}, 2, parent=1, start_ms=10, ms=20)

    runs = {run.model: run for run in runs_of(scoped("s", inner, outer))}

    assert has(runs["gemini-2.5-flash"], input_tokens=2011, output_tokens=97)
    assert has(runs["gemini-embedding-001"], input_tokens=None, output_tokens=None)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            '{"input":1418,"output":56,"total":2114,"input_cached_tokens":401,"input_cache_write_tokens":198,"output_reasoning_tokens":41}',
            {"input_tokens": 2017, "output_tokens": 97, "cached_input_tokens": 401, "cache_write_tokens": 198},
        ),
        (
            '{"input":2011,"cache_read_input_tokens":401,"cache_creation_input_tokens":198,"output":97}',
            WHOLE,
        ),
        (
            '{"input":2011,"input_cached_tokens":401,"input_cache_creation_5m":127,"input_cache_creation_1h":71,"output":97}',
            {**WHOLE, "units": {"cacheWrite1h": 71}},
        ),
        (
            (
                '{"input_tokens":2011,"cache_read_input_tokens":401,"cache_creation_input_tokens":198,"output_tokens":97,'
                '"cache_creation":{"ephemeral_5m_input_tokens":127,"ephemeral_1h_input_tokens":71},"service_tier":"standard"}'
            ),
            {**WHOLE, "units": {"cacheWrite1h": 71}},
        ),
        (
            (
                '{"input":2011,"input_cache_read":401,"input_ephemeral_5m_input_tokens":127,"input_ephemeral_1h_input_tokens":71,'
                '"input_cache_creation":0,"output":97,"total":2707}'
            ),
            {**WHOLE, "units": {"cacheWrite1h": 71}},
        ),
        (
            '{"input_tokens":2610,"cache_read_input_tokens":401,"cache_creation_input_tokens":198,"output_tokens":97,"total_tokens":2707}',
            WHOLE,
        ),
        (
            '{"input":11,"input_audio_tokens":5,"output":7,"output_audio_tokens":3}',
            {"input_tokens": 16, "output_tokens": 10, "audio_input_tokens": 5, "audio_output_tokens": 3},
        ),
    ],
)
def test_langfuses_keys_are_parts_beside_each_other(usage: str, expected: dict[str, object]) -> None:
    sent: dict[str, Value] = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": "claude-sonnet-4-5",
    }

    run = the_run(scoped("langfuse-sdk", span({**sent, "langfuse.observation.usage_details": usage})))

    assert has(run, **expected)


VENDORS = text.loads((CHECKOUT / "clients" / "usage_cases.json").read_text())
AS_SENT: dict[str, Callable[[object], str]] = {
    "langfuse.observation.usage_details": text.dumps,
    "langsmith.metadata.usage_metadata": text.dumps,
    "metadata.usage_object": str,
}
"""The attributes that hold a vendor's usage object, and how each writes it."""


@pytest.mark.parametrize("case", VENDORS, ids=[case["of"] for case in VENDORS])
def test_a_vendors_usage_object_means_what_it_means_in_metadata(case: dict[str, Any]) -> None:
    whole = {name: value for name, value in case["run"].items() if name != "costUSD"}
    for attribute, write in AS_SENT.items():
        sent: dict[str, Value] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5-mini"}
        if attribute == "metadata.usage_object":
            # LiteLLM sends these two beside it.
            counts = {"gen_ai.usage.input_tokens": "inputTokens", "gen_ai.usage.output_tokens": "outputTokens"}
            sent |= {ours: whole[wire] for ours, wire in counts.items() if wire in whole}

        run = the_run(scoped("litellm", span({**sent, attribute: write(case["usage"])})))

        kinds = {camel(kind.count_column): getattr(run, kind.count_column) for kind in TOKEN_KINDS}
        found = kinds | {"units": run.units, "serviceTier": run.service_tier, "region": run.region}
        # What another model did for a call is no run of its own here: its calls have spans of their own.
        assert {name: value for name, value in found.items() if value is not None} == whole, attribute


def test_a_write_of_an_hour_has_its_unit() -> None:
    sent: dict[str, Value] = {
        **CHAT,
        **BESIDE,
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
    }
    hour: dict[str, Value] = {
        "gen_ai.usage.input_tokens": 2610,
        "anthropic.usage.cache_creation.ephemeral_1h_input_tokens": 71,
    }

    assert has(the_run(scoped("com.anthropic.sdk.python", span({**sent, **hour}))), **WHOLE, units={"cacheWrite1h": 71})


@pytest.mark.parametrize(("ends_later_ms", "count"), [(0.4, 1), (4, 1), (6, 2)])
def test_a_stream_that_was_left_is_one_call_though_its_records_end_apart(ends_later_ms: float, count: int) -> None:
    outer: dict[str, Value] = {**OPENINFERENCE, "llm.token_count.prompt": 2610, "llm.token_count.completion": 1}
    inner: dict[str, Value] = {
        **CHAT,
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.usage.input_tokens": 2610,
    }
    del inner["gen_ai.usage.output_tokens"]

    runs = runs_of(
        scoped("openinference.instrumentation.openai", span(outer, 1, ms=111)),
        scoped("sdk", span(inner, 2, start_ms=9.9, ms=101.1 + ends_later_ms)),
    )

    assert len(runs) == count


def test_a_span_that_ends_before_it_starts_has_no_latency() -> None:
    assert the_run(scoped("s", span(MASTRA, ms=-50))).latency_ms is None


def test_a_scope_of_one_vendor_names_it_and_the_id_of_an_answer_is_no_session() -> None:
    sent: dict[str, Value] = {"openinference.span.kind": "EMBEDDING", "embedding.model_name": "embed-v4.0"}
    assert the_run(scoped("openinference.instrumentation.cohere", span(sent))).provider == "cohere"

    for sent_id, session in (("resp_0123", None), ("conv-1", "conv-1")):
        run = the_run(scoped("s", span({**MASTRA, "gen_ai.conversation.id": sent_id})))
        assert run.session_id == session


@pytest.mark.parametrize(
    "kind", ["responses", "aresponses", "anthropic_messages", "aembedding", "arerank", "acompletion"]
)
def test_litellms_functions_are_calls_with_the_user_and_provider_that_it_names(kind: str) -> None:
    sent: dict[str, Value] = {**LITELLM, "llm.request.type": kind, "llm.user": "u-9", "gen_ai.usage.input_tokens": 5}

    assert has(the_run(scoped("litellm", span(sent))), provider="openai", model="gpt-5-mini", user_id="u-9")


def test_the_model_of_litellms_second_callback_is_the_providers_and_not_the_proxys_group() -> None:
    sent: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "cheap",
        "gen_ai.response.model": "cheap",
        "gen_ai.usage.input_tokens": 1255,
        "gen_ai.usage.output_tokens": 375,
        "gen_ai.usage.cache_creation.input_tokens": 55,
        "gen_ai.usage.cache_read.input_tokens": 1035,
        "gen_ai.usage.total_tokens": 1630,
        "litellm.call_type": "acompletion",
        "litellm.provider.model": "anthropic/claude-sonnet-4-5",
        "litellm.cost.total": 0.00668175,
        "litellm.metadata.user_api_key_end_user_id": "u-9",
    }

    run = the_run(scoped("litellm", span(sent)))
    assert has(run, provider="anthropic", model="claude-sonnet-4-5", user_id="u-9")
    assert has(run, input_tokens=1255, cached_input_tokens=1035, cache_write_tokens=55, output_tokens=375)
    assert run.reported_cost_usd == Decimal("0.00668175")


def test_vertex_names_a_model_by_its_place_and_a_tuned_one_keeps_it() -> None:
    place = "projects/p/locations/us-central1/"
    tuned = f"{place}models/4711"
    for sent, model in ((f"{place}publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro"), (tuned, tuned)):
        assert (
            the_run(scoped("s", span({**CHAT, "gen_ai.system": "vertex_ai", "gen_ai.request.model": sent}))).model
            == model
        )


def test_a_transcription_of_litellm_is_a_run_though_it_has_seconds_and_no_tokens() -> None:
    kind: dict[str, Value] = {"llm.request.type": "transcription", "gen_ai.operation.name": "transcription"}
    usage: dict[str, Value] = {"metadata.usage_object": "{'type': 'duration', 'seconds': 12.5}"}
    run = the_run(scoped("litellm", span({**LITELLM, "litellm.provider.model": "openai/whisper-1", **kind, **usage})))

    assert has(run, model="whisper-1", units={"audioSeconds": 12.5})


def test_what_litellm_had_in_its_cache_used_no_tokens() -> None:
    counts: dict[str, Value] = {
        "gen_ai.usage.input_tokens": 2903,
        "gen_ai.usage.output_tokens": 411,
        "gen_ai.usage.total_tokens": 3314,
    }
    usage = "{'prompt_tokens': 2903, 'completion_tokens': 411, 'prompt_tokens_details': {'cached_tokens': 1152}}"
    sent: dict[str, Value] = {
        **LITELLM,
        **counts,
        "llm.request.type": "completion",
        "metadata.usage_object": usage,
        "gen_ai.cost.total_cost": 0.0,
    }

    paid = the_run(scoped("litellm", span({**sent, "litellm.cache_hit": False})))
    cached = the_run(scoped("litellm", span({**sent, "litellm.cache_hit": True})))

    assert has(paid, input_tokens=2903, output_tokens=411, cached_input_tokens=1152)
    assert "cacheHit" not in (paid.metadata or {})
    assert has(cached, input_tokens=0, output_tokens=0, cached_input_tokens=0)
    assert cached.metadata
    assert cached.metadata["cacheHit"] is True


def test_a_refused_call_of_litellm_names_its_provider_apart() -> None:
    sent: dict[str, Value] = {
        "gen_ai.request.model": "my-alias",
        "llm.request.type": "aresponses",
        "error.type": "BadRequestError",
    }

    run = the_run(scoped("litellm", span({**sent, "error.llm_provider": "openai"}, status=REFUSED)))

    assert has(run, provider="openai", model="my-alias", status="error", error_code="BadRequestError")


def test_mlflows_own_spans_are_calls_if_their_type_is() -> None:
    def mlflow(kind: str) -> dict[str, Value]:
        usage = '{"input_tokens": 2610, "output_tokens": 97, "total_tokens": 2707, "cache_read_input_tokens": 401, "cache_creation_input_tokens": 198, "cache_creation_input_tokens_above_1hr": 71}'
        return {
            "mlflow.spanType": f'"{kind}"',
            "mlflow.llm.model": '"claude-sonnet-4-5"',
            "mlflow.chat.tokenUsage": usage,
        }

    run = the_run(scoped("mlflow", span(mlflow("AGENT"), 1, ms=300), span(mlflow("CHAT_MODEL"), 2, parent=1)))

    assert has(run, provider="anthropic", model="claude-sonnet-4-5", units={"cacheWrite1h": 71}, **WHOLE)


def test_what_ag2_says_of_usage_is_no_second_call_unless_nothing_else_says_it() -> None:
    def said(kind: str, number: int) -> Json:
        usage: dict[str, Value] = {"gen_ai.usage.input_tokens": 4020, "gen_ai.usage.output_tokens": 660}
        about: dict[str, Value] = {"gen_ai.provider.name": "openai", "gen_ai.response.model": "gpt-5.4"}
        return span({"ag2.usage.kind": kind, **about, **usage}, number, parent=1)

    counts: dict[str, Value] = {
        "gen_ai.usage.input_tokens": 2011, "gen_ai.usage.output_tokens": 97, "gen_ai.usage.cache_read_input_tokens": 401,
        "gen_ai.usage.cache_creation_input_tokens": 198, "gen_ai.usage.thinking_tokens": 31,
    }  # fmt: skip
    call: dict[str, Value] = {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-sonnet-4-5",
    }  # fmt: skip
    agent: dict[str, Value] = {"gen_ai.operation.name": "invoke_agent"}
    scope = "opentelemetry.instrumentation.ag2"

    run = the_run(
        scoped(
            scope,
            span(agent, 1, ms=300),
            span({**call, **counts}, 2, parent=1),
            said("model_call", 3),
            said("subtask", 4),
        )
    )
    compacted = the_run(scoped(scope, span(agent, 1, ms=300), said("compaction", 2)))

    # Claude's input is without what was cached, as the vendor counts it.
    assert has(run, provider="anthropic", model="claude-sonnet-4-5", reasoning_tokens=31, **WHOLE)
    assert has(compacted, provider="openai", model="gpt-5.4", input_tokens=4020, output_tokens=660)


@pytest.mark.parametrize(
    ("model", "version", "output"),
    [
        ("openai/gpt-5.4", "2.13.0", 411),
        ("gemini/gemini-2.5-pro", "2.13.0", 411),
        ("gemini-2.5-pro", "2.13.0", 718),
        ("projects/p/locations/us/publishers/google/models/gemini-2.5-pro", "2.13.0", 718),
        ("openai/gpt-5.4", "2.14.0", 718),
    ],
)
def test_what_adk_adds_of_litellms_reasoning_is_counted_once(model: str, version: str, output: int) -> None:
    sent: dict[str, Value] = {
        "gen_ai.operation.name": "generate_content",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": 2903,
        "gen_ai.usage.output_tokens": 718,
        "gen_ai.usage.reasoning.output_tokens": 307,
    }

    run = the_run(scoped("gcp.vertex.agent", span(sent), version=version))

    assert has(run, input_tokens=2903, output_tokens=output, reasoning_tokens=307)


def test_what_beeai_reads_from_a_cache_is_counted_and_a_span_that_says_nothing_is_no_run() -> None:
    sent: dict[str, Value] = {
        "openinference.span.kind": "LLM",
        "llm.provider": "openai",
        "llm.model_name": "gpt-5.4",
        "llm.token_count.prompt": 2610,
        "llm.token_count.completion": 97,
        "metadata.usage.cached_prompt_tokens": "401",
        "metadata.usage.cached_creation_tokens": "198",
    }
    silent: list[dict[str, Value]] = [{"openinference.span.kind": kind} for kind in ("LLM", "EMBEDDING")]
    spans = [span(each, number) for number, each in enumerate((sent, *silent), 1)]

    run = the_run(scoped("openinference.instrumentation.beeai", *spans))

    assert has(run, provider="openai", model="gpt-5.4", **WHOLE)


@pytest.mark.parametrize("interface", [":completions", ":responses", ""])
def test_mirascopes_models_have_their_price_and_its_own_object_the_parts_of_its_counts(interface: str) -> None:
    usage = '{"input_tokens":2610,"output_tokens":97,"cache_read_tokens":401,"cache_write_tokens":198,"reasoning_tokens":31,"total_tokens":2707}'
    sent: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": f"openai/gpt-5.4{interface}",
        "gen_ai.usage.input_tokens": 2610,
        "gen_ai.usage.output_tokens": 97,
        "mirascope.response.usage": usage,
    }

    run = the_run(scoped("mirascope.llm", span(sent)))

    assert has(run, provider="openai", model="gpt-5.4", reasoning_tokens=31, **WHOLE)


def test_a_stream_by_logfire_is_one_run_with_the_counts_of_its_end_and_as_long_as_it_says() -> None:
    begun: dict[str, Value] = {
        "logfire.span_type": "span",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-opus-4-6",
    }
    raw = '{"input_tokens":2011,"cache_read_input_tokens":401,"cache_creation_input_tokens":198,"cache_creation":{"ephemeral_1h_input_tokens":90},"output_tokens":97}'
    ended: dict[str, Value] = {
        **begun,
        "logfire.span_type": "log",
        "duration": 1.25,
        "gen_ai.response.id": "msg_1",
        "gen_ai.usage.input_tokens": 2610,
        "gen_ai.usage.output_tokens": 97,
        "gen_ai.usage.cache_read.input_tokens": 401,
        "gen_ai.usage.cache_creation.input_tokens": 198,
        "gen_ai.usage.raw": raw,
    }
    spans = [span(begun), span(ended, 2, start_ms=1_300, ms=0)]

    run = the_run(scoped("logfire.anthropic", *spans))

    assert has(run, latency_ms=1_250, units={"cacheWrite1h": 90}, **WHOLE)
    assert has(the_run(scoped("logfire.openai", span(begun, status=REFUSED))), status="error")


def test_a_failed_call_of_mlflow_has_its_model_in_quotes_and_a_bare_one_is_somebody_elses() -> None:
    sent: dict[str, Value] = {"gen_ai.operation.name": "chat", "model": '"gpt-5-mini"'}

    assert has(the_run(scoped("mlflow", span(sent, status=REFUSED))), model="gpt-5-mini", status="error")
    assert not runs_of(scoped("mlflow", span({**sent, "model": "gpt-5-mini"}, status=REFUSED)))


@pytest.mark.parametrize(("counts", "status"), [({}, "error"), ({"gen_ai.usage.input_tokens": 5}, "success")])
def test_the_reason_error_is_a_failure_without_counts(counts: dict[str, Value], status: str) -> None:
    sent: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai.responses",
        "gen_ai.request.model": "gpt-5-mini",
    }

    run = the_run(
        scoped("@mastra/otel-exporter", span({**sent, **counts, "gen_ai.response.finish_reasons": '["error"]'}))
    )

    assert has(run, status=status, finish_reason="error", provider="openai")


@pytest.mark.parametrize(("at", "expected"), [("12:00:00.210", 210), ("11:59:59.999", None), ("12:00:00.500", None)])
def test_a_first_token_counts_if_it_lies_within_the_call(at: str, expected: int | None) -> None:
    run = the_run(scoped("s", span({**MASTRA, "mastra.completion_start_time": f"2026-06-15T{at}Z"}, ms=326)))

    assert run.time_to_first_token_ms == expected


AGENT: dict[str, Value] = {"openinference.span.kind": "AGENT", "session.id": "sess-7", "user.id": "u-9"}


def test_session_and_user_come_from_the_nearest_span_above_that_names_them() -> None:
    runs = runs_of(
        scoped(
            "agno",
            span({**AGENT, "session.id": "outer", "user.id": "u-1"}, 1, ms=900),
            span({"openinference.span.kind": "AGENT", "session.id": "inner"}, 2, parent=1, ms=800),
            span({"openinference.span.kind": "TOOL"}, 3, parent=2, ms=700),
            span(OPENINFERENCE, 4, parent=3),
            span({**OPENINFERENCE, "session.id": "own"}, 5, parent=3, start_ms=200),
        )
    )

    assert {(run.session_id, run.user_id) for run in runs} == {("inner", "u-1"), ("own", "u-1")}


def test_they_also_come_from_a_span_of_the_last_minute_but_not_of_another_project() -> None:
    now = [100.0]
    recent = Recent(lambda: now[0])
    runs_of(scoped("agno", span(AGENT, 1, ms=900)), recent=recent)
    below = scoped("agno", span(OPENINFERENCE, 2, parent=1))

    (run,) = runs_of(below, recent=recent)
    assert has(run, session_id="sess-7", user_id="u-9")
    assert recent.people_of("another", bytes.fromhex("0af7651916cd43dd8448eb211c80319c0000000000000001")) is None

    now[0] += 61
    (late,) = runs_of(below, recent=recent)
    assert has(late, session_id=None, user_id=None)


@pytest.mark.parametrize(
    ("sent", "model"),
    [
        ("openai/gpt-5-mini", "gpt-5-mini"),
        ("openai/my-own", "openai/my-own"),
        ("anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
    ],
)
def test_a_prefix_that_repeats_the_provider_of_a_known_model_goes(sent: str, model: str) -> None:
    assert the_run(scoped("s", span({**MASTRA, "gen_ai.request.model": sent}))).model == model


def test_the_member_of_an_enumeration_is_its_value() -> None:
    sent: dict[str, Value] = {**MASTRA, "gen_ai.response.finish_reason": "FinishReason.STOP"}

    assert the_run(scoped("semantic_kernel", span(sent))).finish_reason == "stop"


def test_a_record_that_ends_when_its_stream_opens_takes_the_times_of_the_one_with_the_counts() -> None:
    outer: dict[str, Value] = {**OPENINFERENCE, "llm.token_count.prompt": 2337, "llm.token_count.completion": 97}

    run = the_run(
        scoped("openinference.instrumentation.openai_agents", span(outer, 1, ms=244)),
        scoped("openinference.instrumentation.openai", span(OPENINFERENCE, 2, parent=1, start_ms=1, ms=11)),
    )

    assert has(run, latency_ms=244, input_tokens=2337)


def test_a_refused_call_without_a_model_is_a_failed_run() -> None:
    sent: dict[str, Value] = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai"}

    assert has(the_run(scoped("s", span(sent, status=REFUSED))), provider="openai", model="unknown", status="error")
    assert not runs_of(scoped("s", span(sent)))


LIVEKIT: dict[str, Value] = {"gen_ai.provider.name": "gcp.gemini", "gen_ai.request.model": "gemini-2.5-flash"}


@pytest.mark.parametrize("failed", [1, 2])
def test_a_call_of_livekit_that_was_tried_again_is_one_run_that_ended_as_it_did_at_last(failed: int) -> None:
    tries = [
        span(LIVEKIT, 2 + n, parent=1, name="llm_request_run", status=REFUSED if n < failed else {}) for n in range(2)
    ]
    last = {**CHAT, **LIVEKIT, "lk.llm_metrics": '{"total_tokens":4197,"prompt_cached_tokens":1024}'}
    ended = span(last, ms=300) if failed < len(tries) else span({**LIVEKIT, **CHAT}, ms=300, status=REFUSED)
    run = the_run(scoped("livekit-agents", *tries, ended))

    # Its total alone has Gemini's thoughts.
    assert has(
        run,
        **({"status": "success", "output_tokens": 2186} if failed < len(tries) else {"status": "error"}),
        latency_ms=300,
    )


@pytest.mark.parametrize(
    ("sent", "counts"),
    [
        (
            {"lk.tts_metrics": '{"characters_count":23,"input_tokens":0,"output_tokens":0}'},
            {"units": {"characters": 23}},
        ),
        (
            {"lk.tts_metrics": '{"characters_count":23,"input_tokens":17,"output_tokens":233}'},
            {"input_tokens": 17, "output_tokens": 233, "units": None},
        ),
        ({"gen_ai.operation.name": "tts", "metrics.character_count": 23}, {"units": {"characters": 23}}),
        ({"gen_ai.operation.name": "stt", "metrics.audio_seconds": 2.5}, {"units": {"audioSeconds": 2.5}}),
    ],
)
def test_speech_is_a_run_by_its_characters_or_seconds(sent: dict[str, Value], counts: dict[str, object]) -> None:
    about: dict[str, Value] = {"gen_ai.provider.name": "elevenlabshttp", "gen_ai.request.model": "eleven_turbo_v2_5"}

    assert has(
        the_run(scoped("s", span({**about, **sent, "metrics.ttfb": 0.02}))),
        provider="elevenlabs",
        time_to_first_token_ms=20,
        **counts,
    )
    assert not runs_of(scoped("s", span({**about, "gen_ai.operation.name": "tts"})))
    assert not runs_of(scoped("s", span({**about, "metrics.audio_seconds": -1})))
