"""Prints the numeric fields of each SDK's usage objects as JSON; run by `test_vendors.py` where the SDKs are installed."""

import enum
import importlib
import json
import types
import typing

OBJECTS = (
    "anthropic.types:MessageDeltaUsage",
    "anthropic.types:Usage",
    "anthropic.types.beta:BetaMessageDeltaUsage",
    "anthropic.types.beta:BetaUsage",
    "cerebras.cloud.sdk.types.chat.chat_completion:ChatCompletionResponseUsage",
    "cohere:ApiMeta",
    "cohere.types.usage:Usage",
    "google.genai.interactions:Usage",
    "google.genai.types:GenerateContentResponseUsageMetadata",
    "google.genai.types:UsageMetadata",
    "groq.types:CompletionUsage",
    "langchain_core.messages.ai:UsageMetadata",
    "mistralai.client.models:OCRUsageInfo",
    "mistralai.client.models:UsageInfo",
    "ollama:ChatResponse",
    "openai.types.audio.transcription:Usage",
    "openai.types.audio.transcription_verbose:Usage",
    "openai.types.completion_usage:CompletionUsage",
    "openai.types.create_embedding_response:Usage",
    "openai.types.images_response:Usage",
    "openai.types.realtime:RealtimeResponseUsage",
    "openai.types.responses:ResponseUsage",
    "openrouter.components:ChatUsage",
    "openrouter.components:STTUsage",
    "openrouter.components:Usage",
    "perplexity.types.responses_usage:ResponsesUsage",
    "perplexity.types.shared:UsageInfo",
)
MOST_LEVELS = 6


def fields_of(kind, path=""):
    """Yield the paths of the numeric fields of a type; `[]` stands for the items of a list."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        yield from fields_of(arguments[0], path)
    elif origin in (typing.Union, types.UnionType):
        for each in arguments:
            yield from fields_of(each, path)
    elif origin in (list, tuple):
        yield from fields_of(arguments[0], f"{path}[]")
    elif origin is dict or kind in (int, float):
        yield path
    elif (
        isinstance(kind, type) and not issubclass(kind, (str, bool, bytes, enum.Enum)) and path.count(".") < MOST_LEVELS
    ):
        models = getattr(kind, "model_fields", None)
        hints = {name: each.annotation for name, each in models.items()} if models else typing.get_type_hints(kind)
        for name, each in hints.items():
            if not name.startswith("_") and each is not typing.Any:
                yield from fields_of(each, f"{path}.{name}".strip("."))


def fields_of_bedrock():
    import botocore.session

    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    yield from fields_of_shape(service.shape_for("TokenUsage"))


def fields_of_shape(shape, path=""):
    if shape.type_name == "structure":
        for name, member in shape.members.items():
            snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
            yield from fields_of_shape(member, f"{path}.{snake}".strip("."))
    elif shape.type_name == "list":
        yield from fields_of_shape(shape.member, f"{path}[]")
    elif shape.type_name in ("integer", "long", "float", "double"):
        yield path


def fields_of_xai():
    from xai_sdk.proto import usage_pb2

    usage = usage_pb2.DESCRIPTOR.message_types_by_name["SamplingUsage"]
    return [field.name for field in usage.fields if field.enum_type is None]


def main():
    found = {"botocore TokenUsage": sorted(fields_of_bedrock()), "xai_sdk SamplingUsage": fields_of_xai()}
    for name in OBJECTS:
        module, _, kind = name.partition(":")
        found[name] = sorted(set(fields_of(getattr(importlib.import_module(module), kind))))
    print(json.dumps(found))


main()
