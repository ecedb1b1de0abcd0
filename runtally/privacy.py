"""The content rule: what of a run is dropped, kept or refused. The only module that decides it; pure.

Prompts and completions are never stored, logged, echoed or hashed. `promptPreview` is kept unless the mode says strict.
In free-form metadata a value is dropped when its key names content, however it is spelt (`system_prompt`,
`systemPrompt`, `System-Prompt`) and however deep it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from runtally.settings import PrivacyMode

_SEPARATORS = dict.fromkeys(map(ord, "_-. "))


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """Metadata without content, and whether anything was dropped."""

    metadata: dict[str, Any]
    dropped: bool


@dataclass(frozen=True, slots=True)
class ContentRule:
    """The rule as the settings make it."""

    refuses_content: bool
    """A run that carries a prompt or completion is refused instead of stripped."""
    keeps_preview: bool
    content_keys: frozenset[str]
    """Normalised; empty when metadata is left as sent."""

    @classmethod
    def of(cls, mode: PrivacyMode, content_keys: Iterable[str]) -> Self:
        return cls(
            refuses_content=mode is PrivacyMode.REJECT,
            keeps_preview=mode not in {PrivacyMode.STRICT, PrivacyMode.REJECT},
            content_keys=frozenset()
            if mode is PrivacyMode.OFF_METADATA_SCRUB
            else frozenset(_normalised(key) for key in content_keys),
        )

    def scrub(self, metadata: Mapping[str, Any]) -> Scrubbed:
        """The metadata without the values whose keys name content. Nesting must have been limited before."""
        if not self.content_keys:
            return Scrubbed(dict(metadata), dropped=False)
        dropped = False

        def kept(value: Any) -> Any:  # noqa: ANN401  # Metadata is any JSON value.
            nonlocal dropped
            if isinstance(value, dict):
                clean = {key: kept(item) for key, item in value.items() if _normalised(key) not in self.content_keys}
                dropped = dropped or len(clean) < len(value)
                return clean
            return [kept(item) for item in value] if isinstance(value, list) else value

        return Scrubbed(kept(dict(metadata)), dropped)


def _normalised(key: str) -> str:
    return key.translate(_SEPARATORS).casefold()
