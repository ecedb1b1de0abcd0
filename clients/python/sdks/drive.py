"""Calls each SDK that is installed, in every way that it has, with the client instrumenting it; run by `test_sdks.py`.

Each case is an experiment of its own, so that its runs can be distinguished. It runs in the environments of old SDKs too, and so
is written for Python 3.9. It prints the names of the cases that there were.
"""

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import time
import warnings

import runtally_client as runtally

PROVIDER = os.environ["PROVIDER_URL"]
CHAT, EMBED, CLAUDE, GEMINI = "gpt-4o-mini", "text-embedding-3-small", "claude-sonnet-4-5", "gemini-2.5-flash"
MESSAGES = [{"role": "user", "content": os.environ["CANARY"]}]
TIMEOUT_SECONDS = 0.5
WITH_USAGE = {"stream_options": {"include_usage": True}}

names = []


@contextlib.contextmanager
def case(name):
    """Run one way of calling; what the SDK raises is what the case is about."""
    names.append(name)
    with runtally.context(experiment=name):
        try:
            yield
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
    if not runtally.flush(30):
        sys.exit(f"{name}: not committed")


def url(*traits, version="/v1"):
    return "/".join((PROVIDER, *traits)) + version


def drain(stream):
    for _ in stream:
        pass


async def adrain(stream):
    async for _ in stream:
        pass


def wait_for_callbacks(name):
    """Wait for a library that says what it did from a thread of its own."""
    deadline = time.monotonic() + 10
    while name not in recorded and time.monotonic() < deadline:
        time.sleep(0.01)


recorded = []


def count_recorded():
    record = runtally._record

    def counting(run):
        recorded.append(run.get("experimentId") or run.get("userId"))
        record(run)

    runtally._record = counting
    runtally._begin = lambda provider, model: runtally.Call(counting, provider, model)


def drive_openai():
    import openai

    def client(*traits, **options):
        return openai.OpenAI(base_url=url(*traits), api_key="x", **options)

    def create(*traits, **options):
        return client(*traits).chat.completions.create(model=CHAT, messages=MESSAGES, **options)

    with case("openai chat"):
        create()
    with case("openai tools"):
        create("tools")
    with case("openai raw"):
        client().chat.completions.with_raw_response.create(model=CHAT, messages=MESSAGES)
    with case("openai stream without usage"):
        drain(create(stream=True))
    with case("openai embeddings"):
        client().embeddings.create(model=EMBED, input=MESSAGES[0]["content"])
    with case("openai retried"):
        create("flaky")
    for trait in ("429", "500"):
        with case(f"openai {trait}"):
            client(trait, max_retries=0).chat.completions.create(model=CHAT, messages=MESSAGES)
    with case("openai timeout"):
        client("slow", timeout=TIMEOUT_SECONDS, max_retries=0).chat.completions.create(model=CHAT, messages=MESSAGES)
    with case("openai cut stream"):
        drain(create("cut", stream=True))
    with case("openai short stream"):
        drain(create("short", stream=True))
    with case("openai stream of groq"):
        drain(create("groq", stream=True))
    with case("openai stream of llama.cpp"):
        drain(create("llama", stream=True))
    with case("openai without usage"):
        create("no-usage")
    with case("openrouter"):
        create("costs")
    with case("azure"):
        azure = openai.AzureOpenAI(base_url=url(), api_key="x", api_version="1")
        azure.chat.completions.create(model="my-deployment", messages=MESSAGES)
    own = url().replace("127.0.0.1", "localhost")
    runtally.instrument("openai", providers={own.split("/")[2]: "ollama"})
    with case("a server of one's own"):
        openai.OpenAI(base_url=own, api_key="x").chat.completions.create(model=CHAT, messages=MESSAGES)
    with case("openai in run"), runtally.run("openai", "named-by-hand") as run:
        run.usage(create().usage)
    if hasattr(openai.resources.audio, "Speech"):
        drive_media(client())
    if "stream_options" in openai.resources.chat.completions.Completions.create.__annotations__:
        drive_openai_usage(client, create)
    if hasattr(openai.OpenAI, "responses"):
        drive_responses(client)
    if hasattr(openai.OpenAI, "realtime"):
        drive_turns(drive_realtime, openai)
    asyncio.run(adrive_openai(openai))


def drive_media(client):
    with case("openai image"):
        client.images.generate(model="dall-e-3", prompt=MESSAGES[0]["content"], n=2)
    with case("openai image by tokens"):
        client.images.generate(model="gpt-image-1", prompt=MESSAGES[0]["content"])
    with case("openai transcription"):
        client.audio.transcriptions.create(model="whisper-1", file=("a.wav", b"RIFF"))
    with case("openai speech"):
        client.audio.speech.create(model="tts-1", voice="alloy", input=MESSAGES[0]["content"])


def drive_openai_usage(client, create):
    with case("openai stream"):
        drain(create(stream=True, **WITH_USAGE))
    with case("openai raw stream"):
        raw = client().chat.completions.with_raw_response.create(
            model=CHAT, messages=MESSAGES, stream=True, **WITH_USAGE
        )
        drain(raw.parse())
    with case("openai streaming response"):
        streaming = client().chat.completions.with_streaming_response
        with streaming.create(model=CHAT, messages=MESSAGES) as response:
            response.parse()
    with case("openai closed stream"), create(stream=True, **WITH_USAGE) as stream:
        next(stream)
    runtally.uninstrument("openai")
    runtally.instrument("openai", stream_usage=True)
    with case("openai stream asked for usage"):
        drain(create(stream=True))
    runtally.uninstrument("openai")
    runtally.instrument("openai")


def drive_responses(client):
    with case("openai responses"):
        client().responses.create(model=CHAT, input=MESSAGES[0]["content"])
    with case("openai responses stream"):
        drain(client().responses.create(model=CHAT, input=MESSAGES[0]["content"], stream=True))
    with case("openai short responses stream"):
        drain(client("short").responses.create(model=CHAT, input=MESSAGES[0]["content"], stream=True))
    with case("openai responses helper"):
        with client().responses.stream(model=CHAT, input=MESSAGES[0]["content"]) as stream:
            drain(stream)
    with case("openai chat helper"):
        with client().chat.completions.stream(model=CHAT, messages=MESSAGES, **WITH_USAGE) as stream:
            drain(stream)
    if hasattr(client(), "decisions"):
        with case("openai compaction"):
            client().responses.compact(model=CHAT, input=MESSAGES[0]["content"])
        with case("openai beta response"):
            client().beta.responses.create(model=CHAT, input=MESSAGES[0]["content"])
        with case("openai decision"):
            client().decisions.create(model=CHAT, input=MESSAGES[0]["content"], questions=[])


async def adrive_openai(openai):
    def create(*traits, client=None, **options):
        client = client or openai.AsyncOpenAI(base_url=url(*traits), api_key="x")
        return client.chat.completions.create(model=CHAT, messages=MESSAGES, **options)

    with case("openai async chat"):
        await create()
    with case("openai async stream without usage"):
        await adrain(await create(stream=True))
    with case("openai async 500"):
        failing = openai.AsyncOpenAI(base_url=url("500"), api_key="x", max_retries=0)
        await create(client=failing)
    with case("openai async timeout"):
        slow = openai.AsyncOpenAI(base_url=url("slow"), api_key="x", timeout=TIMEOUT_SECONDS, max_retries=0)
        await create(client=slow)
    with case("openai async cancelled"):
        await asyncio.wait_for(create("slow"), TIMEOUT_SECONDS)
    with case("openai async stream cancelled"):
        await asyncio.wait_for(adrain(await create("held", stream=True)), TIMEOUT_SECONDS)
    with case("openai async at once"):
        await asyncio.gather(*(create() for _ in range(5)))


def drive_anthropic():
    import anthropic

    call = {"model": CLAUDE, "max_tokens": 100, "messages": MESSAGES}

    def client(*traits, **options):
        return anthropic.Anthropic(base_url=url(*traits, version=""), api_key="x", **options)

    with case("anthropic messages"):
        client().messages.create(**call)
    with case("anthropic tools"):
        client("tools").messages.create(**call)
    with case("anthropic advisor"):
        client("advisor").messages.create(**call)
    with case("anthropic stream"):
        drain(client().messages.create(**call, stream=True))
    with case("anthropic short stream"):
        drain(client("short").messages.create(**call, stream=True))
    with case("anthropic helper"), client().messages.stream(**call) as stream:
        stream.get_final_message()
    for trait in ("429", "500"):
        with case(f"anthropic {trait}"):
            client(trait, max_retries=0).messages.create(**call)
    with case("anthropic timeout"):
        client("slow", max_retries=0).messages.create(**call, timeout=TIMEOUT_SECONDS)

    async def adrive():
        client = anthropic.AsyncAnthropic(base_url=url(version=""), api_key="x")
        with case("anthropic async messages"):
            await client.messages.create(**call)
        with case("anthropic async helper"):
            async with client.messages.stream(**call) as stream:
                await stream.get_final_message()

    asyncio.run(adrive())


def drive_gemini():
    from google import genai
    from google.genai import types

    def client(*traits):
        return genai.Client(api_key="x", http_options=types.HttpOptions(base_url=url(*traits, version="")))

    call = {"model": GEMINI, "contents": MESSAGES[0]["content"]}
    # A client that nobody holds closes its connections, in some versions.
    plain, failing, short = client(), client("500"), client("short")
    with case("gemini content"):
        plain.models.generate_content(**call)
    if hasattr(types, "ServiceTier"):
        with case("gemini flex"):
            plain.models.generate_content(**call, config={"service_tier": "flex"})
    with case("gemini stream"):
        drain(plain.models.generate_content_stream(**call))
    with case("gemini short stream"):
        drain(short.models.generate_content_stream(**call))
    with case("gemini chat"):
        plain.chats.create(model=GEMINI).send_message(MESSAGES[0]["content"])
    with case("gemini 500"):
        failing.models.generate_content(**call)

    if hasattr(genai.Client, "interactions"):
        asked = {"model": GEMINI, "input": MESSAGES[0]["content"]}
        with case("gemini interaction"):
            plain.interactions.create(**asked)
        with case("gemini interaction stream"):
            drain(plain.interactions.create(**asked, stream=True))
        drive_turns(drive_live, genai)

    async def adrive():
        if hasattr(genai.Client, "interactions"):
            with case("gemini async interaction"):
                await plain.aio.interactions.create(**asked)
        with case("gemini async content"):
            await plain.aio.models.generate_content(**call)
        with case("gemini async stream"):
            await adrain(await plain.aio.models.generate_content_stream(**call))

    asyncio.run(adrive())


def drive_litellm():
    import litellm

    litellm.suppress_debug_info = True
    litellm.num_retries = 0

    def call(*traits, **options):
        return {
            "model": CHAT,
            "messages": MESSAGES,
            "api_base": url(*traits),
            "api_key": "x",
            "max_retries": 0,
            **options,
        }

    @contextlib.contextmanager
    def waited(name):
        with case(name):
            try:
                yield
            finally:
                wait_for_callbacks(name)

    with waited("litellm completion"):
        litellm.completion(**call())
    with waited("litellm stream"):
        drain(litellm.completion(**call(stream=True, **WITH_USAGE)))
    # Older ones leave out what was written to a cache.
    is_recent = int(importlib.metadata.version("litellm").split(".")[1]) >= 100
    if is_recent:
        with waited("litellm anthropic"):
            litellm.completion(**call(model=f"anthropic/{CLAUDE}", api_base=url(version="")))
    with waited("litellm embedding"):
        litellm.embedding(model=EMBED, input=[MESSAGES[0]["content"]], api_base=url(), api_key="x")
    with waited("litellm 500"):
        litellm.completion(**call("500"))
    from litellm.caching.caching import Cache

    litellm.cache = Cache(type="local")
    # LiteLLM calls back for a cache hit from a thread without the caller's context: its user identifies it.
    for name in ("litellm before the cache", "litellm cache hit"):
        with waited(name):
            litellm.completion(**call(caching=True, user="litellm cache hit"))
    litellm.cache = None

    async def adrive():
        async def waited(name, calling):
            with case(name):
                with contextlib.suppress(Exception):
                    await calling
                deadline = time.monotonic() + 10
                while name not in recorded and time.monotonic() < deadline:
                    await asyncio.sleep(0.01)

        await waited("litellm async completion", litellm.acompletion(**call()))
        await waited("litellm async timeout", litellm.acompletion(**call("slow", timeout=TIMEOUT_SECONDS)))

    asyncio.run(adrive())


def drive_langchain():
    from langchain_openai import ChatOpenAI

    options = {"callbacks": [runtally.langchain_handler()]}

    def model(*traits):
        return ChatOpenAI(model=CHAT, base_url=url(*traits), api_key="x", max_retries=0)

    with case("langchain invoke"):
        model().invoke(MESSAGES[0]["content"], config=options)
    with case("langchain without its handler"):
        model().invoke(MESSAGES[0]["content"])
    with case("langchain batch"):
        model().batch([MESSAGES[0]["content"]] * 3, config=options)
    if not importlib.metadata.version("langchain-core").startswith(
        "0."
    ):  # Those do not mark what their cache answered.
        from langchain_core.caches import InMemoryCache

        cached = ChatOpenAI(model=CHAT, base_url=url(), api_key="x", cache=InMemoryCache())
        for name in ("before the cache", "cache hit"):
            with case(f"langchain {name}"):
                cached.invoke(MESSAGES[0]["content"], config=options)
    with case("langchain 500"):
        model("500").invoke(MESSAGES[0]["content"], config=options)

    async def adrive():
        with case("langchain async invoke"):
            await model().ainvoke(MESSAGES[0]["content"], config=options)

    asyncio.run(adrive())


def drive_agents():
    import agents
    import openai

    agents.set_trace_processors([runtally.agents_processor()])
    for api in ("responses", "chat_completions"):
        agents.set_default_openai_api(api)
        for name, trait in (("", ()), (" 500", ("500",))):
            with case(f"agents {api}{name}"):
                client = openai.AsyncOpenAI(base_url=url(*trait), api_key="x", max_retries=0)
                agents.set_default_openai_client(client)
                asyncio.run(agents.Runner.run(agents.Agent(name="agent", model=CHAT), MESSAGES[0]["content"]))


async def answer_in_turns(socket):
    """Be the server of a connection: OpenAI's Realtime or Gemini's Live."""
    is_openai = "/realtime" in socket.request.path

    async def send(*messages):
        for message in messages:
            await socket.send(json.dumps(message))

    if is_openai:
        await send(
            {"type": "session.created", "event_id": "1", "session": {"type": "realtime", "model": "gpt-realtime"}}
        )
    async for text in socket:
        asked = json.loads(text)
        if "setup" in asked:
            await send({"setupComplete": {}})
        elif is_openai:
            about = {"id": "r-1", "object": "realtime.response"}
            details = {"cached_tokens": 1000, "audio_tokens": 390, "cached_tokens_details": {"audio_tokens": 90}}
            usage = {"input_tokens": 1200, "output_tokens": 350, "total_tokens": 1550, "input_token_details": details}
            await send(
                {"type": "response.created", "event_id": "2", "response": {**about, "status": "in_progress"}},
                {"type": "response.output_text.delta", "event_id": "3", "response_id": "r-1", "delta": "a"},
                {
                    "type": "response.done",
                    "event_id": "4",
                    "response": {**about, "status": "completed", "usage": usage},
                },
            )
        else:
            counts = {"promptTokenCount": 1200, "cachedContentTokenCount": 1000, "responseTokenCount": 350}
            await send(
                {"serverContent": {"modelTurn": {"parts": [{"text": "a"}]}}},
                {"serverContent": {"turnComplete": True}, "usageMetadata": counts},
            )


async def drive_realtime(openai, port):
    client = openai.AsyncOpenAI(api_key="x", base_url=f"http://127.0.0.1:{port}/v1")
    with case("openai realtime"):
        async with client.realtime.connect(model="gpt-realtime") as connection:
            await connection.response.create()
            async for event in connection:
                if event.type == "response.done":
                    break


async def drive_live(genai, port):
    options = genai.types.HttpOptions(base_url=f"http://127.0.0.1:{port}")
    client, connect = genai.Client(api_key="x", http_options=options), genai.live.ws_connect
    # The SDK insists on TLS.
    genai.live.ws_connect = lambda uri, **given: connect(
        uri.replace("wss:", "ws:"), additional_headers=given["additional_headers"]
    )
    with case("gemini live"):
        async with client.aio.live.connect(model=GEMINI) as session:
            for _ in range(2):
                await session.send_client_content(turns={"role": "user", "parts": [{"text": "a"}]}, turn_complete=True)
                await adrain(session.receive())


def drive_turns(drive, sdk):
    from websockets.asyncio.server import serve

    async def serving():
        async with serve(answer_in_turns, "127.0.0.1", 0) as server:
            await drive(sdk, next(iter(server.sockets)).getsockname()[1])

    asyncio.run(serving())


DRIVES = {
    "openai": drive_openai,
    "anthropic": drive_anthropic,
    "google.genai": drive_gemini,
    "litellm": drive_litellm,
    "langchain_openai": drive_langchain,
    "agents": drive_agents,
}


def main():
    warnings.simplefilter("ignore")
    count_recorded()
    runtally.init()
    runtally.instrument()
    for module in sys.argv[1:]:
        if importlib.util.find_spec(module) is None:
            sys.exit(f"{module} is not installed here")
        DRIVES[module]()
    print(json.dumps(names))


main()
