"""`make fuzz`: bytes made up by which lines of the code they reach, until one finds an exception.

    python -m tests.fuzz ingest 300

What reached something new is kept in `corpus/`; what failed is written next to it, as `crash-...`, and the exit code is 1.
"""

import sys
from pathlib import Path

import atheris

# Times are recognised by a regular expression: what almost matches it is near to what does.
atheris.enabled_hooks.add("RegEx")
with atheris.instrument_imports(include=["runtally"]):
    from tests.fuzz.targets import LIMIT, TARGETS

CORPUS = Path(__file__).parent / "corpus"
# Longer ones find nothing that shorter ones do not, and take longer.
LONGEST = {"ingest": 2_000, "timestamps": 60, "otlp": 2_000}


def main() -> None:
    name, seconds = sys.argv[1:]
    corpus = CORPUS / name
    limits = [
        f"-max_total_time={int(seconds)}",
        f"-max_len={min(LONGEST[name], LIMIT)}",
        "-timeout=5",
        "-rss_limit_mb=1024",
    ]
    atheris.Setup(
        [sys.argv[0], *limits, f"-artifact_prefix={CORPUS}/{name}-", "-print_final_stats=1", str(corpus)], TARGETS[name]
    )
    atheris.Fuzz()


main()
