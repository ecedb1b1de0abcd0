"""Everything that ever reached something new, once more: without a fuzzer, and in no time."""

from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_of_the_corpus_finds_anything(name: str) -> None:
    files = sorted((CORPUS / name).iterdir())

    for file in files:
        TARGETS[name](file.read_bytes())
    assert files
