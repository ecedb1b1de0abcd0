"""The content rule: which values of a run are dropped, kept or refused. Only this module decides it. Pure.

Prompts and completions are never stored, logged, echoed or hashed. `promptPreview` is kept unless the mode says strict.
In free-form metadata a value is dropped when its key names content, however it is spelt (`system_prompt`,
`systemPrompt`, `System-Prompt`, in full-width letters, with accents or with invisible characters), wherever in the key
(`gen_ai.prompt.0.content`, `input:value`) and however deep it is. Counts are kept, although tracers name them after
what they count (`llm.token_count.prompt`, `usage: {"input": 5}`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple, Self
from unicodedata import combining, normalize

from runtally.fields import SCALARS, is_flat
from runtally.settings import PrivacyMode

# Characters that are invisible in Unicode (Default_Ignorable_Code_Point), such as a zero-width space or a soft hyphen.
_INVISIBLE = dict.fromkeys(
    number
    for first, last in (
        *((0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
        *((0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
        *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
    )
    for number in range(first, last + 1)
)
_SEPARATORS = re.compile(r"[\W_]+")
# Blanks, hyphens and underscores join words to one name; any other sign separates names.
_SEGMENTS = re.compile(r"[^\w\s-]+")
# An abbreviation ends before the capital letter of the next word: `LLMPrompt`.
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# One name may have so many segments or words: `tool.call.result`.
_PARTS = (1, 2, 3)
# In a longer key this word means the provider: `gen_ai.system`, `db.system`.
_ALONE = "system"
# Words that may stand before a word for content without changing its meaning: `user_prompt`, `chat_messages`.
_QUALIFIERS = frozenset(
    {
        "agent",
        "ai",
        "anthropic",
        "assistant",
        "base",
        "bot",
        "chat",
        "claude",
        "compiled",
        "conversation",
        "current",
        "customer",
        "developer",
    }
    | {
        "final",
        "first",
        "formatted",
        "full",
        "function",
        "gemini",
        "gen",
        "generated",
        "gpt",
        "http",
        "human",
        "initial",
        "last",
        "llm",
        "model",
    }
    | {"my", "new", "openai", "original", "our", "previous", "prior", "raw", "rendered", "request", "session", "system"}
    | {"the", "tool", "user"}
)
# Words that may stand behind one: `prompt_raw`, `prompt_v2`.
_FORMS = frozenset({"raw", "str", "string", "v"})
_COUNTED = frozenset({"usage", "token", "tokens", "cost", "costs", "count", "counts"})
# Facts about content that are not content: `gen_ai.response.id`, `input.mime_type`.
_ABOUT = frozenset(
    {"finishreason", "finishreasons", "hash", "id", "key", "length", "mimetype", "model", "name", "role", "size"}
    | {"statuscode", "type", "version"}
)
_NUMERAL = re.compile(r"\d{1,20}(?:\.\d{1,20})?")
# Clients use few keys, and short ones; a flood of others costs time, not memory.
_REMEMBERED_KEYS = 4096
_REMEMBERED_CHARS = 128
_REMEMBERED_TOGETHER = 512


class Scrubbed(NamedTuple):
    """Metadata without content, and whether anything was dropped."""

    metadata: dict[str, Any]
    dropped: bool


@dataclass(frozen=True, slots=True)
class ContentRule:
    """The content rule of the settings."""

    refuses_content: bool
    """Whether a run with a prompt or completion is refused instead of stripped."""
    keeps_preview: bool
    content_keys: frozenset[str]
    """Normalised keys; empty when metadata is left as sent."""

    @classmethod
    def of(cls, mode: PrivacyMode, content_keys: Iterable[str]) -> Self:
        return cls(
            refuses_content=mode is PrivacyMode.REJECT,
            keeps_preview=mode not in {PrivacyMode.STRICT, PrivacyMode.REJECT},
            content_keys=frozenset()
            if mode is PrivacyMode.OFF_METADATA_SCRUB
            else frozenset(_normalised(_legible(key)) for key in content_keys),
        )

    def scrub(self, metadata: dict[str, Any]) -> Scrubbed:
        """Return the metadata without the values whose keys name content. Limit its nesting before."""
        if not self.content_keys or self.is_plain(metadata):
            return Scrubbed(metadata, dropped=False)
        dropped: list[None] = []
        return Scrubbed(self._kept_of(metadata, dropped, counted=False), bool(dropped))

    def is_plain(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether metadata is flat, small and without content keys, so that `scrub` would keep all of it.

        Most metadata is, and its keys hardly ever change, so the meaning of keys is remembered.
        """
        keys = tuple(metadata)
        return (
            is_flat(metadata)
            and sum(map(len, keys)) <= _REMEMBERED_TOGETHER
            and _name_no_content(self.content_keys, keys)
        )

    def _kept_of(self, item: Mapping[str, Any], dropped: list[None], *, counted: bool) -> dict[str, Any]:
        clean = {}
        for key, value in item.items():
            names_content, names_count = _meaning(self.content_keys, key)
            counts = counted or names_count
            if names_content and not (counts and _holds_counts(value)):
                dropped.append(None)
            else:
                clean[key] = value if type(value) in SCALARS else self._kept(value, dropped, counted=counts)
        return clean

    def _kept(self, value: Any, dropped: list[None], *, counted: bool) -> Any:  # noqa: ANN401  # Metadata is any JSON value.
        if isinstance(value, list):
            return [self._kept(item, dropped, counted=counted) for item in value]
        return self._kept_of(value, dropped, counted=counted) if isinstance(value, dict) else value


class _Meaning(NamedTuple):
    """The meaning of a key: content, a count, or both; then the value decides."""

    content: bool
    counted: bool


def _meaning(content_keys: frozenset[str], key: str) -> _Meaning:
    return (_remembered if len(key) <= _REMEMBERED_CHARS else _meaning_of)(content_keys, key)


def _meaning_of(content_keys: frozenset[str], key: str) -> _Meaning:
    key = _legible(key)
    segments = [segment for segment in _SEGMENTS.split(key) if not segment.isdecimal()]
    return _Meaning(
        content=_normalised(key) in content_keys or _is_content_path(content_keys, segments),
        counted=any(map(_is_count, segments)),
    )


_remembered = lru_cache(maxsize=_REMEMBERED_KEYS)(_meaning_of)


@lru_cache(maxsize=_REMEMBERED_KEYS // 4)
def _name_no_content(content_keys: frozenset[str], keys: tuple[str, ...]) -> bool:
    return not any(_meaning(content_keys, key).content for key in keys)


def _is_content_path(content_keys: frozenset[str], segments: list[str]) -> bool:
    names = list(map(_normalised, segments))
    if len(names) > 1 and (names[-1] in _ABOUT or _is_count(segments[-1])):
        return False
    joined = (
        "".join(names[start : start + length]) for length in _PARTS[1:] for start in range(len(names) - length + 1)
    )
    return not content_keys.isdisjoint(joined) or any(_is_content(content_keys, segment) for segment in segments)


def _is_content(content_keys: frozenset[str], segment: str) -> bool:
    """Return whether a segment names content.

    `input_text`, `user_prompt_2` and `ai_tool_call` do; `input_tokens`, `prompt_id` and `query_model` do not.
    """
    name = _normalised(segment)
    if name in content_keys:
        return name != _ALONE
    words = _words(segment)
    while words and words[-1] in _FORMS:
        words.pop()
    # Every length is tried: `thought` alone does not tell that `user_chain_of_thought` is content.
    return any(
        (last := "".join(words[-length:])) in content_keys
        and last != _ALONE
        and all(word in content_keys or word in _QUALIFIERS for word in words[:-length])
        for length in _PARTS
    )


def _is_count(segment: str) -> bool:
    return not _COUNTED.isdisjoint(_words(segment))


def _holds_counts(value: Any) -> bool:  # noqa: ANN401  # Metadata is any JSON value.
    """Return whether the value is a number, null, or an object of these."""
    if isinstance(value, dict):
        return all(map(_holds_counts, value.values()))
    if isinstance(value, str):
        return bool(_NUMERAL.fullmatch(value))
    return value is None or isinstance(value, int | float | Decimal)


def _words(segment: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(segment)]


def _legible(key: str) -> str:
    """Return the key as people read it: in plain letters, without accents and invisible characters.

    Accents go first, because Python's time to put many of them into order grows with their square.
    """
    return key if key.isascii() else _bare(normalize("NFKD", _bare(key)))


def _bare(key: str) -> str:
    return "".join(char for char in key.translate(_INVISIBLE) if not combining(char))


def _normalised(key: str) -> str:
    return _SEPARATORS.sub("", key).casefold()
