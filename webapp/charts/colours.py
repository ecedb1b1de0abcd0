"""Which colour a series has. Pure."""

from collections.abc import Iterable, Sequence

SLOTS = ("c1", "c2", "c3", "c4", "c5")
OTHER = "other"
BAD, WARN = "bad", "warn"


def colour_slots(names: Iterable[str]) -> dict[str, str]:
    """A slot for each of the first names, which come by rank of all time, so that a name keeps its colour everywhere."""
    return dict(zip(dict.fromkeys(names), SLOTS, strict=False))


def shared_slots(everywhere: Sequence[str], here: Sequence[str]) -> dict[str, str]:
    """Slots for the names of one project, both by rank of all time.

    A name of the first everywhere keeps its slot here. Slots whose owner is not among the first here go to the next
    names here, so that a project of rare models is not all grey.
    """
    slots = colour_slots(everywhere)
    first = here[: len(SLOTS)]
    kept = {name: slots[name] for name in first if name in slots}
    free = iter([slot for slot in SLOTS if slot not in kept.values()])
    return kept | {name: next(free) for name in first if name not in kept}
