"""Convert types to JSON Schema for OpenAPI 3.1: msgspec's schemas, made readable. Pure."""

from collections.abc import Iterable
from typing import Any

import msgspec

from runtally.ingest.wire import MEANING, Batch, SingleRun, WireRun

REFERENCE = "#/components/schemas/"
Schema = dict[str, Any]

_NULL = {"type": "null"}
# `WireRun` differs from `StoredRun` only in our code; clients know one run.
_PREFIX = "Wire"
_EXPLAINED = {struct.__name__ for struct in (WireRun, SingleRun, Batch)}


def schemas_of(types: Iterable[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """Return the schema of each type, and the named schemas that these refer to."""
    schemas, named = msgspec.json.schema_components(types, ref_template=REFERENCE + "{name}")
    components = {
        name.removeprefix(_PREFIX): _explained(_tidy(schema)) if name in _EXPLAINED else _tidy(schema)
        for name, schema in named.items()
    }
    return [_tidy(schema) for schema in schemas], components


def fields_of(struct: type[msgspec.Struct]) -> Iterable[tuple[str, Schema, bool]]:
    """Yield name, schema and whether it is required, for each field of a struct of parameters."""
    for field in msgspec.structs.fields(struct):
        (schema,), named = schemas_of([field.type])
        schema = _without_null(schema)
        if "$ref" in schema:
            schema = named[schema["$ref"].removeprefix(REFERENCE)] | schema
            del schema["$ref"], schema["title"]
        if field.default not in {msgspec.NODEFAULT, msgspec.UNSET, None}:
            schema["default"] = msgspec.to_builtins(field.default)
        yield field.encode_name, schema, field.required


def _tidy(node: Any) -> Any:  # noqa: ANN401  # Any JSON value.
    """Remove defaults that only mean "may be left out", and `null` where it is one of two types."""
    if isinstance(node, list | tuple):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    tidy = {key: _tidy(value) for key, value in node.items() if (key, value) != ("default", None)}
    for key in tidy.keys() & {"$ref", "title"}:
        if isinstance(tidy[key], str):
            tidy[key] = tidy[key].replace(REFERENCE + _PREFIX, REFERENCE).removeprefix(_PREFIX)
    if tidy.get("format") == "decimal":
        # Amounts are numbers on the wire, with all their digits.
        return {"type": "number"} | {key: value for key, value in tidy.items() if key not in {"type", "format"}}
    constants = [name for name, field in tidy.get("properties", {}).items() if _is_constant(field)]
    if constants:
        tidy["required"] = [*constants, *tidy["required"]]
    match tidy.get("anyOf"):
        case [{"type": str(kind), **rest}, null] if null == _NULL:
            del tidy["anyOf"]
            if kind == "number" and isinstance(tidy.get("default"), str):
                tidy["default"] = float(tidy["default"])
            return {"type": [kind, "null"], **rest, **tidy}
    if "enum" in tidy and all(isinstance(value, str) for value in tidy["enum"]):
        return {"type": "string", **tidy}
    return tidy


def _is_constant(field: Any) -> bool:  # noqa: ANN401  # Any JSON value.
    """Return whether a field is always present with one value, such as `ok`; msgspec takes a default to mean optional."""
    match field:
        case {"enum": [only], "default": default}:
            return bool(only == default)
    return False


def _without_null(schema: Schema) -> Schema:
    """Remove null: a query says null by leaving a parameter out."""
    match schema:
        case {"type": [kind, "null"], **rest}:
            return {"type": kind, **rest}
        case {"anyOf": [only, null], **rest} if null == _NULL:
            return {**only, **rest}
    return schema


def _explained(schema: Schema) -> Schema:
    """Add the description of each field; its constraint is in its schema already."""
    fields = {name: {**field, "description": MEANING[name]} for name, field in schema["properties"].items()}
    return {**schema, "properties": fields}
