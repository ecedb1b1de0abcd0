"""Act on a module when it is imported, or at once if it is already: instrumentation imports no SDK that the program does not."""

from __future__ import annotations

import importlib.util
import logging
import sys
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

log = logging.getLogger("runtally")
Act = Callable[[Any], None]


def when_imported(name: str, act: Act) -> None:
    """Call `act` with the module of this name, now or when it is there. What it raises is logged."""
    module = sys.modules.get(name)
    if module is not None:
        _act(act, module)
    else:
        _finder.awaited.setdefault(name, []).append(act)
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)


def forget(name: str) -> None:
    """Wait for this module no longer."""
    _finder.awaited.pop(name, None)


class _Finder:
    """Finds what the other finders find, and has the loader say when it is done."""

    def __init__(self) -> None:
        self.awaited: dict[str, list[Act]] = {}
        self._looking: set[str] = set()

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self.awaited or name in self._looking:
            return None
        self._looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking.discard(name)
        load = getattr(spec and spec.loader, "exec_module", None)
        if spec is None or load is None:
            return None

        def exec_module(module: ModuleType) -> None:
            load(module)
            # Only now: many programs look for a module without importing it.
            for act in self.awaited.pop(name, ()):
                _act(act, module)

        spec.loader.exec_module = exec_module  # type: ignore[union-attr, method-assign]  # Of this import alone.
        return spec


def _act(act: Act, module: Any) -> None:
    try:
        act(module)
    except Exception as error:  # noqa: BLE001  # A version that is built otherwise: the program goes on without.
        log.warning("Runtally could not instrument %s: %s", module.__name__, error)


_finder = _Finder()
