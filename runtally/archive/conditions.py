"""The conditions of a filter in the SQL of DuckDB, which reads archived runs. Pure."""

from collections.abc import Iterable

from runtally.usage.conditions import Conditions

_KINDS = {"numeric": "decimal(38, 12)", "uuid": "text"}


class ArchiveConditions(Conditions):
    """Conditions on archived runs, where a key is text, and metadata is JSON."""

    __slots__ = ()

    def value(self, value: object, kind: str = "text") -> str:
        return super().value(str(value) if kind == "uuid" else value, _KINDS.get(kind, kind))

    def path(self, key: str) -> str:
        return self._way([key])

    def each_of(self, values: str, name: str, *, has_any: bool) -> str:
        of_any, of_none = (f"{values} || ['']", "[]") if has_any else (values, "[NULL]")
        return f" CROSS JOIN unnest(CASE WHEN len({values}) > 0 THEN {of_any} ELSE {of_none} END) AS {name} (value)"

    def has_tag(self, tag: str) -> str:
        return f"list_contains(tags, {self.value(tag)})"

    def has_key(self, key: str) -> str:
        return f"list_contains(json_keys(metadata), {self.value(key)})"

    def has_text(self, key: str, text: str) -> str:
        ways = [self.path(key), *([self._way(key.split("."))] if "." in key else [])]
        return f"({' OR '.join(f'metadata ->> {way} = {self.value(text)}' for way in ways)})"

    def _way(self, keys: Iterable[str]) -> str:
        # A JSON pointer, as in a path of DuckDB's own `*` stands for any key, and no key may be empty.
        return self.value("".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys))
