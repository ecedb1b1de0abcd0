"""Put an OpenAPI document into words for the reference page: operations by group, types and constraints. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape
from msgspec import Struct

REFERENCE = "#/components/schemas/"
Node = Mapping[str, Any]


class Endpoint(Struct, frozen=True):
    """A method of a path."""

    method: str
    path: str
    also_at: Sequence[str]
    """Other paths of the same operation."""
    operation: Node
    schemes: Sequence[str]
    body: Node
    """The JSON that it takes; empty without any."""
    curl: str
    """A request to copy, with placeholders for keys."""

    @property
    def description(self) -> list[Markup]:
        """The paragraphs that say more than the summary."""
        text = self.operation["description"].strip()
        return prose(text) if text.rstrip(".") != self.operation["summary"] else []

    @property
    def examples(self) -> Sequence[tuple[str, str]]:
        return examples_of(self.body)

    @property
    def answers(self) -> list[tuple[str, Node]]:
        """The answers other than errors, each with its status."""
        return [one for one in self.operation["responses"].items() if one[0] < "400"]

    @property
    def errors(self) -> list[tuple[str, Node]]:
        return [one for one in self.operation["responses"].items() if one[0] >= "400"]

    @property
    def can_be_tried(self) -> bool:
        """Whether a page can send the request: it is read or posted, and has no body or one with an example."""
        is_complete = self.method == "GET" or (self.method == "POST" and (bool(self.examples) or not self.body))
        return is_complete and "signature" not in self.schemes


def groups_of(document: Node, base_url: str) -> Iterator[tuple[Node, Sequence[Endpoint]]]:
    """Yield each tag with its operations, and requests to copy that go to `base_url`.

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
        endpoints.setdefault(tag, []).append(_endpoint(path, others, method, document, base_url))
    for tag in document["tags"]:
        yield tag, endpoints[tag["name"]]


def prose(text: str) -> list[Markup]:
    """Split a text into paragraphs."""
    return [marked(" ".join(paragraph.split())) for paragraph in text.split("\n\n") if paragraph.strip()]


def marked(text: str) -> Markup:
    """Mark the parts of a text between backticks as code."""
    parts = [escape(part) for part in text.split("`")]
    parts[1::2] = [Markup("<code>{}</code>").format(part) for part in parts[1::2]]
    return Markup().join(parts)


def kind_of(schema: Node) -> Markup:
    """Describe the type in words; a named one leads to where it is described."""
    match schema:
        case {"$ref": str(reference)}:
            return Markup('<a href="#type-{0}">{0}</a>').format(reference.removeprefix(REFERENCE))
        case {"anyOf": [*alternatives]}:
            return Markup(" or ").join(map(kind_of, alternatives))
        case {"type": [*kinds]}:
            return Markup(" or ").join(kind_of({**schema, "type": kind}) for kind in kinds)
        case {"type": "array", "items": items}:
            return Markup("array of {}").format(kind_of(items))
    if schema.get("additionalProperties"):
        return Markup("map of string to {}").format(kind_of(schema["additionalProperties"]))
    values = schema.get("enum", ())
    default = "boolean" if values and all(isinstance(value, bool) for value in values) else "anything"
    return Markup("{}").format(schema.get("type", default))


def constraint_of(schema: Node) -> str:
    """Describe the constraints in words."""
    return ", ".join(_constraints(schema))


def examples_of(content: Node) -> list[tuple[str, str]]:
    """Return title and text of each example of a body."""
    values = ((title, example["value"]) for title, example in content.get("examples", {}).items())
    return [
        (title, value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))
        for title, value in values
    ]


def codes_of(content: Node) -> Sequence[str]:
    """Return the codes of the errors that the body of an answer may say."""
    match content:
        case {"schema": {"properties": {"error": {"properties": {"code": {"enum": [*codes]}}}}}}:
            return codes
    return ()


def header_of(scheme: Node) -> str:
    """Return the header that authenticates in this way."""
    if scheme["type"] == "http":
        return "Authorization: Bearer <key>"
    return f"{scheme['name']}: <{'signature' if 'signature' in scheme['name'] else 'key'}>"


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


def _endpoint(path: str, also_at: Sequence[str], method: str, document: Node, base_url: str) -> Endpoint:
    operation: Node = document["paths"][path][method]
    schemes = [name for wanted in operation["security"] for name in wanted]
    body: Node = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    curl = _curl(f"{base_url}{path}", method.upper(), schemes, body, document)
    return Endpoint(method.upper(), path, also_at, operation, schemes, body, curl)


def _curl(url: str, method: str, schemes: Iterable[str], body: Node, document: Node) -> str:
    lines = [f"curl {'' if method == 'GET' else f'-X {method} '}'{url}'"]
    known = document["components"]["securitySchemes"]
    lines += [f"-H '{header_of(known[scheme])}'" for scheme in list(schemes)[:1]]
    # A body that libraries write, such as OTLP's, has no example.
    if "examples" in body:
        first = next(iter(body["examples"].values()))["value"]
        lines += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(first, ensure_ascii=False)}'"]
    return " \\\n  ".join(lines)
