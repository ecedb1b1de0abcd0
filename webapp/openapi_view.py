"""Prepare an OpenAPI document for the reference page: operations by group, types by name, constraints in words. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

REFERENCE = "#/components/schemas/"
Node = Mapping[str, Any]


class Span(Struct, frozen=True):
    """A piece of text: plain, code, or the name of a type, with its anchor."""

    text: str
    is_code: bool = False
    anchor: str | None = None


Text = tuple[Span, ...]


class Field(Struct, frozen=True):
    """A parameter, or a field of a type. `place` says where a parameter goes."""

    name: str
    kind: Text
    is_required: bool
    constraint: str
    meaning: Text
    place: str = ""


class Example(Struct, frozen=True):
    title: str
    text: str


class Answer(Struct, frozen=True):
    """The answer for one status."""

    status: str
    meaning: Text
    kinds: tuple[tuple[str, Text], ...]
    """Media types and their shapes."""
    codes: tuple[str, ...]
    """The codes of errors."""
    headers: tuple[str, ...]
    examples: tuple[Example, ...]

    @property
    def is_error(self) -> bool:
        return self.status >= "400"


class Endpoint(Struct, frozen=True):
    """A method of a path."""

    anchor: str
    method: str
    path: str
    also_at: tuple[str, ...]
    """Other paths of the same operation."""
    summary: str
    description: tuple[Text, ...]
    schemes: tuple[str, ...]
    parameters: tuple[Field, ...]
    body: Text
    curl: str
    """A request to copy, with placeholders for keys."""
    examples: tuple[Example, ...]
    answers: tuple[Answer, ...]

    @property
    def can_be_tried(self) -> bool:
        """Whether a page can send the request: it is read or posted, and has no body or one with an example."""
        is_complete = self.method == "GET" or (self.method == "POST" and (bool(self.examples) or not self.body))
        return is_complete and "signature" not in self.schemes


class Group(Struct, frozen=True):
    name: str
    description: str
    endpoints: tuple[Endpoint, ...]


class Scheme(Struct, frozen=True):
    """A way to authenticate."""

    name: str
    header: str
    meaning: Text


class NamedType(Struct, frozen=True):
    name: str
    anchor: str
    meaning: Text
    fields: tuple[Field, ...]
    values: tuple[str, ...]


def groups_of(document: Node, base_url: str) -> tuple[Group, ...]:
    """Group the operations by tag, with requests to copy that go to `base_url`.

    An operation with several paths is shown once, at its shortest.
    """
    paths: dict[tuple[str, str, str, str], list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            key = (operation["tags"][0], method, operation["summary"], operation["description"])
            paths.setdefault(key, []).append(path)
    endpoints: dict[str, list[Endpoint]] = {}
    for (tag, method, *_), found in paths.items():
        path, *others = sorted(found, key=lambda one: (len(one), one))
        endpoints.setdefault(tag, []).append(_endpoint(path, tuple(others), method, document, base_url))
    return tuple(Group(tag["name"], tag["description"], tuple(endpoints[tag["name"]])) for tag in document["tags"])


def schemes_of(document: Node) -> tuple[Scheme, ...]:
    return tuple(
        Scheme(name, _header(scheme), spans(scheme["description"]))
        for name, scheme in document["components"]["securitySchemes"].items()
    )


def types_of(document: Node) -> tuple[NamedType, ...]:
    return tuple(
        NamedType(
            name,
            _anchor(name),
            spans(schema.get("description", "")),
            tuple(_fields(schema)),
            tuple(map(str, schema.get("enum", ()))),
        )
        for name, schema in document["components"]["schemas"].items()
    )


def prose(text: str) -> tuple[Text, ...]:
    """Split a text into paragraphs."""
    return tuple(spans(" ".join(paragraph.split())) for paragraph in text.split("\n\n") if paragraph.strip())


def spans(text: str) -> Text:
    """Split a text into spans; a part between backticks is code."""
    return tuple(Span(part, is_code=bool(index % 2)) for index, part in enumerate(text.split("`")) if part)


def kind_of(schema: Node) -> Text:
    """Describe the type in words."""
    match schema:
        case {"$ref": str(reference)}:
            name = reference.removeprefix(REFERENCE)
            return (Span(name, anchor=_anchor(name)),)
        case {"anyOf": [*alternatives]}:
            return _joined(map(kind_of, alternatives), " or ")
        case {"type": [*kinds]}:
            return _joined((kind_of({**schema, "type": kind}) for kind in kinds), " or ")
        case {"type": "array", "items": items}:
            return (Span("array of "), *kind_of(items))
    if schema.get("additionalProperties"):
        return (Span("map of string to "), *kind_of(schema["additionalProperties"]))
    values = schema.get("enum", ())
    default = "boolean" if values and all(isinstance(value, bool) for value in values) else "anything"
    return (Span(str(schema.get("type", default))),)


def constraint_of(schema: Node) -> str:
    """Describe the constraints in words."""
    return ", ".join(_constraints(schema))


def _constraints(schema: Node) -> Iterator[str]:
    if "enum" in schema:
        yield "one of " + ", ".join(json.dumps(value).strip('"') for value in schema["enum"])
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        yield f"{low} to {high}"
    elif low is not None:
        yield f"at least {low}"
    if schema.get("maxLength"):
        yield f"at most {schema['maxLength']} characters"
    if "maxItems" in schema:
        yield f"{schema.get('minItems', 0)} to {schema['maxItems']} items"
    elif schema.get("minItems"):
        yield f"at least {schema['minItems']} item"
    if "default" in schema:
        yield f"default {json.dumps(schema['default']).strip(chr(34))}"


def _fields(schema: Node) -> Iterator[Field]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        yield Field(name, kind_of(field), name in required, constraint_of(field), spans(field.get("description", "")))


def _endpoint(path: str, also_at: tuple[str, ...], method: str, document: Node, base_url: str) -> Endpoint:
    operation: Node = document["paths"][path][method]
    schemes = tuple(name for wanted in operation["security"] for name in wanted)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    summary, description = operation["summary"], operation["description"].strip()
    return Endpoint(
        anchor=operation["operationId"],
        method=method.upper(),
        path=path,
        also_at=also_at,
        summary=summary,
        description=prose(description) if description.rstrip(".") != summary else (),
        schemes=schemes,
        parameters=tuple(_parameters(operation)),
        body=kind_of(body["schema"]) if body else (),
        curl=_curl(f"{base_url}{path}", method.upper(), schemes, body, document),
        examples=tuple(_examples(body)),
        answers=tuple(_answers(operation)),
    )


def _parameters(operation: Node) -> Iterator[Field]:
    for parameter in operation.get("parameters", ()):
        schema, meaning = parameter["schema"], spans(parameter["description"])
        constraint = constraint_of(schema)
        yield Field(parameter["name"], kind_of(schema), parameter["required"], constraint, meaning, parameter["in"])


def _answers(operation: Node) -> Iterator[Answer]:
    for status, answer in operation["responses"].items():
        contents: Node = answer.get("content", {})
        codes = [
            code
            for content in contents.values()
            for code in content.get("schema", {})
            .get("properties", {})
            .get("error", {})
            .get("properties", {})
            .get("code", {})
            .get("enum", ())
        ]
        yield Answer(
            status=status,
            meaning=spans(answer["description"]),
            kinds=tuple((media_type, kind_of(content.get("schema", {}))) for media_type, content in contents.items()),
            codes=tuple(codes),
            headers=tuple(answer.get("headers", ())),
            # Examples of errors would all look alike.
            examples=() if codes else tuple(example for content in contents.values() for example in _examples(content)),
        )


def _examples(content: Node) -> Iterator[Example]:
    for title, example in content.get("examples", {}).items():
        value = example["value"]
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        yield Example(title, text)


def _curl(url: str, method: str, schemes: Iterable[str], body: Node, document: Node) -> str:
    lines = [f"curl {'' if method == 'GET' else f'-X {method} '}'{url}'"]
    known = document["components"]["securitySchemes"]
    lines += [f"-H '{_header(known[scheme])}'" for scheme in list(schemes)[:1]]
    # A body that libraries write, such as OTLP's, has no example.
    if "examples" in body:
        first = next(iter(body["examples"].values()))["value"]
        lines += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(first, ensure_ascii=False)}'"]
    return " \\\n  ".join(lines)


def _header(scheme: Node) -> str:
    if scheme["type"] == "http":
        return "Authorization: Bearer <key>"
    return f"{scheme['name']}: <{'signature' if 'signature' in scheme['name'] else 'key'}>"


def _anchor(name: str) -> str:
    return f"type-{name}"


def _joined(texts: Iterable[Text], between: str) -> Text:
    joined: list[Span] = []
    for text in texts:
        joined += [Span(between), *text] if joined else text
    return tuple(joined)
