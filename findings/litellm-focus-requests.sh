#!/usr/bin/env bash
# LiteLLM: its export of spend in the form of FOCUS has requests and no tokens, and costs in whole millionths of a dollar by row.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/v" && "$folder/v/bin/pip" -q install litellm==1.110.2 polars==2.1.0 > /dev/null 2>&1 || exit 2
LITELLM_LOCAL_MODEL_COST_MAP=true timeout 120 "$folder/v/bin/python" -W ignore - <<'PY'
import sys
from decimal import Decimal
from importlib.metadata import version

import polars
from litellm.integrations.focus.transformer import FocusTransformer

CALL = {"date": "2026-11-27", "api_key": "key", "api_key_alias": "shop", "model": "gpt-5.4-nano", "model_group": "nano", "custom_llm_provider": "openai",
        "prompt_tokens": 7, "completion_tokens": 2, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "api_requests": 1,
        "successful_requests": 1, "failed_requests": 0, "spend": 0.0000004, "team_id": None, "team_alias": None, "user_id": None, "user_email": None}
rows = FocusTransformer().transform(polars.DataFrame([{**CALL, "api_key": f"key {number}"} for number in range(1_000)]))
billed, units = Decimal(rows["BilledCost"].sum()), sorted({*rows["ConsumedUnit"], *rows["PricingUnit"]})
tokens = [name for name in rows.columns if "token" in name.casefold()]
print("litellm", version("litellm"), "polars", version("polars"))
print("guess: a FOCUS export of calls says how many tokens they had, and its BilledCost is the spend")
print("seen: a day of 1,000 keys that spent $0.0000004 each, 9 tokens, is", billed, "dollars, in units of", units, "with columns of tokens:", tokens)
sys.exit(0 if (billed, units, tokens) == (0, ["Requests"], []) else 1)
PY
