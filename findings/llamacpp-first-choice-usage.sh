#!/usr/bin/env bash
# llama.cpp's server, here in its package for Python with a model of random weights: the usage of an answer with two choices, or of two prompts in one request, is that of
# the first alone, though it made both; a stream names a usage for each. Its own metrics have all. A stream that was not asked for its usage has the counts all the same,
# under other names (`timings`).
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install xllamacpp==2026.10.11549 gguf==0.19.0 numpy > /dev/null 2>&1 || exit 2
timeout 100 "$folder/v/bin/python" - "$folder/tiny.gguf" 2> /dev/null <<'PY'
import json
import os
import re
import socket
import sys
import urllib.request
from importlib.metadata import version

import gguf
import numpy as np
import xllamacpp

WIDTH, INNER, LAYERS, HEADS = 64, 128, 2, 4
tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "a", "b", "\u2581a"]
kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL, *[gguf.TokenType.BYTE] * 256, *[gguf.TokenType.NORMAL] * 4]
random = np.random.default_rng(1)
model = gguf.GGUFWriter(sys.argv[1], "llama")
model.add_context_length(4096), model.add_embedding_length(WIDTH), model.add_block_count(LAYERS), model.add_feed_forward_length(INNER)
model.add_head_count(HEADS), model.add_head_count_kv(HEADS), model.add_layer_norm_rms_eps(1e-5), model.add_rope_dimension_count(WIDTH // HEADS)
model.add_vocab_size(len(tokens)), model.add_file_type(0), model.add_tokenizer_model("llama"), model.add_token_list(tokens)
model.add_token_scores([0.0] * len(tokens)), model.add_token_types(kinds), model.add_bos_token_id(1), model.add_eos_token_id(2)
model.add_chat_template("{% for m in messages %}{{ m['content'] }}\n{% endfor %}")


def weights(name, *shape):
    model.add_tensor(name, np.ones(shape, np.float32) if len(shape) == 1 else (random.standard_normal(shape) * 0.1).astype(np.float32))


weights("token_embd.weight", len(tokens), WIDTH), weights("output.weight", len(tokens), WIDTH), weights("output_norm.weight", WIDTH)
for layer in (f"blk.{number}." for number in range(LAYERS)):
    weights(layer + "attn_norm.weight", WIDTH), weights(layer + "ffn_norm.weight", WIDTH)
    for part in ("q", "k", "v", "output"):
        weights(f"{layer}attn_{part}.weight", WIDTH, WIDTH)
    weights(layer + "ffn_gate.weight", INNER, WIDTH), weights(layer + "ffn_up.weight", INNER, WIDTH), weights(layer + "ffn_down.weight", WIDTH, INNER)
model.write_header_to_file(), model.write_kv_data_to_file(), model.write_tensors_to_file(), model.close()

with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
how = xllamacpp.CommonParams()
how.model.path, how.n_ctx, how.n_parallel, how.n_gpu_layers, how.warmup = sys.argv[1], 4096, 2, 0, False
how.endpoint_metrics, how.cpuparams.n_threads, how.port, how.hostnames = True, 1, port, ["127.0.0.1"]
server = xllamacpp.Server(how)
url = server.listening_address


def ask(path, **asked):
    request = urllib.request.Request(url + path, json.dumps({**asked, "max_tokens": 7}).encode(), {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=30).read().decode()


def made():
    return int(re.search(r"^llamacpp:tokens_predicted_total (\d+)", urllib.request.urlopen(url + "/metrics").read().decode(), re.M)[1])


def of_stream(text, name):
    parts = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    return [part[name] for part in parts if part.get(name)]


HELLO, BOTH = {"messages": [{"role": "user", "content": "a b a"}]}, {"prompt": ["a b a", "b b"]}
seen = {}
for name, path, asked in (("one choice", "/v1/chat/completions", HELLO), ("two choices", "/v1/chat/completions", {**HELLO, "n": 2}), ("two prompts", "/v1/completions", BOTH)):
    before = made()
    usage = json.loads(ask(path, **asked))["usage"]
    seen[name] = usage["completion_tokens"], made() - before
streamed = of_stream(ask("/v1/chat/completions", **HELLO, n=2, stream=True, stream_options={"include_usage": True}), "usage")
plain = ask("/v1/chat/completions", **HELLO, stream=True)
timings = of_stream(plain, "timings")
print("xllamacpp", version("xllamacpp"), "- llama.cpp's server, build 11549")
print("guess: the completion tokens of an answer are all that were made for it, and a stream that is not asked tells none")
for name, (said, of_metrics) in seen.items():
    print(f"seen: {name}: completion_tokens {said}, its metrics {of_metrics}")
print("seen: a stream of two choices:", [each["completion_tokens"] for each in streamed], "; a stream that was not asked: usage", of_stream(plain, "usage"), "timings", {name: timings[0][name] for name in ("cache_n", "prompt_n", "predicted_n")})
is_so = seen == {"one choice": (7, 7), "two choices": (7, 14), "two prompts": (7, 14)} and len(streamed) == 2 and timings[0]["predicted_n"] == 7
sys.stdout.flush()
os._exit(0 if is_so and not of_stream(plain, "usage") else 1)
PY
