"""Generate the OpenAPI 3.1 document from the operations that views declare and the types of requests and answers.

Nothing is written twice: every constraint, error code and access rule is taken from the code. `GUARDS` has the words for the
rules, and GET /api/openapi.json answers the document.
"""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from quart import Blueprint, Quart, current_app
from quart.typing import ResponseReturnValue
from quart_rate_limiter import QUART_RATE_LIMITER_LIMITS_ATTRIBUTE

from api.access import AccessRule, declared_rule, public
from api.current import services
from api.errors import Failure, status_of_kind
from api.operation import JSON, Answer, Content, Operation, documents, operation_of
from api.reply import reply
from api.schemas import Schema, fields_of, schemas_of
from runtally import __version__
from runtally.errors import (
    Forbidden,
    InvalidKey,
    InvalidSignature,
    MissingKey,
    NotConfigured,
    RateLimited,
    RuntallyError,
    StoreBusy,
    StoreUnavailable,
)
from runtally.settings import Settings

SCHEMES: dict[str, Schema] = {
    "ingestKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of `INGEST_API_KEY`, or a project key with the scope runs:write unless "
        "`INGEST_PROJECT_KEYS=0`; the project is then the key's.",
    },
    "ingestKeyHeader": {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "The same keys, for clients that cannot send Authorization.",
    },
    "ingestKeyAsPassword": {
        "type": "http",
        "scheme": "basic",
        "description": "The same keys as the password; the user is the project, or nothing.",
    },
    "projectKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key that `runtally keys create` issued; in dev mode none is needed.",
    },
    "signature": {
        "type": "apiKey",
        "in": "header",
        "name": "x-svc-signature",
        "description": "Lower-case hex HMAC-SHA256 of the raw body under `SERVICE_SYNC_SIGN`, also as `sha256=<hex>`.",
    },
}


@dataclass(frozen=True, slots=True)
class Guard:
    """An access rule for the documentation: any one of the schemes grants access."""

    schemes: tuple[str, ...]
    raises: tuple[type[RuntallyError], ...]


GUARDS = {
    "public": Guard((), ()),
    "ingest key": Guard(
        ("ingestKey", "ingestKeyHeader"),
        (MissingKey, InvalidKey, Forbidden, RateLimited, NotConfigured, StoreUnavailable),
    ),
    "otlp key": Guard(
        ("ingestKey", "ingestKeyHeader", "ingestKeyAsPassword"),
        (MissingKey, InvalidKey, Forbidden, RateLimited, NotConfigured, StoreUnavailable),
    ),
    "sync signature": Guard(("signature",), (InvalidSignature, NotConfigured)),
    "project key": Guard(("projectKey",), (MissingKey, InvalidKey, RateLimited, StoreUnavailable, StoreBusy)),
}
"""Guards by the names of the rules. A test refuses a route under /api whose rule is missing here."""


INTRODUCTION = """\
Runtally stores what LLM calls cost, how long they took and how they ended, never what was said.

Answers may get new fields, so ignore those that you do not know. Every answer has an `X-Request-Id`; if you send one, it is
kept. All errors have the same shape: branch on `error.code`, and show `error.message`. After a 429, or a 503 with
`Retry-After`, send the same request again. A 503 does not say whether a run was stored, so give each run a `runId`: a run is
never stored twice."""

TAGS = {
    "Runs": "Send runs.",
    "OTLP": "Send OpenTelemetry data; model calls become runs.",
    "Metrics": "Read totals, rates and percentiles.",
    "Management": "Read and change what forms change: projects, budgets, experiments and more.",
    "Bills": "Check vendors' bills against the costs that were computed.",
    "Notes": "Mark moments on the charts of a project.",
    "Erasures": "Erase the runs of a person.",
    "Experiments": "Read the verdict on an experiment.",
    "Sync": "Copy live runs into the reporting table.",
    "Health": "Check the server.",
    "Reference": "Read this document.",
}

# Errors that any operation may have: bugs of ours, and nothing else.
_ALWAYS = (RuntallyError,)
_REQUEST_ID = {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}}
_LIMIT_HEADERS = {
    "RateLimit-Limit": "Requests per minute, for the project.",
    "RateLimit-Remaining": "How many of them are left now.",
    "RateLimit-Reset": "Seconds until all of them are left again.",
}
_ERROR_HEADERS = {
    429: {"Retry-After": "Seconds until the next request will be taken.", **_LIMIT_HEADERS},
    503: {"Retry-After": "Seconds after which to try again, if waiting helps."},
}


@dataclass(frozen=True, slots=True)
class Route:
    """A method of a path, with the declarations of its view."""

    path: str
    method: str
    view: Callable[..., object]
    operation: Operation
    rule: AccessRule
    name: str
    """A name that no other operation has."""

    @property
    def is_limited(self) -> bool:
        return bool(getattr(self.view, QUART_RATE_LIMITER_LIMITS_ATTRIBUTE, ()))

    def status_of(self, error: type[RuntallyError]) -> int:
        """Return the status of the error for this route."""
        status = status_of_kind(error)
        return 503 if self.operation.failure and status == 429 else status  # noqa: PLR2004  # OTLP clients drop a 429.

    @property
    def raises(self) -> Iterable[type[RuntallyError]]:
        limits = (RateLimited,) if self.is_limited else ()
        return dict.fromkeys((*GUARDS[self.rule.name].raises, *limits, *self.operation.raises, *_ALWAYS))


def routes_of(app: Quart) -> Iterator[Route]:
    """List the documented routes, in the order of their paths."""
    names: Counter[str] = Counter()
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule):
        view = app.view_functions[rule.endpoint]
        operation, access_rule = operation_of(view), declared_rule(view)
        if operation is None or access_rule is None:
            continue
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            path = re.sub(r"<(?:[^:<>]*:)?([^<>]+)>", r"{\1}", rule.rule)
            names[view.__name__] += 1
            name = view.__name__ + (f"_{names[view.__name__]}" if names[view.__name__] > 1 else "")
            yield Route(path, method.lower(), view, operation, access_rule, name)


def document(routes: Iterable[Route], settings: Settings) -> Schema:
    """Build the whole document, for a server with these settings."""
    types = _Types()
    paths: dict[str, Schema] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method] = _operation(route, types)
    used = {operation["tags"][0] for methods in paths.values() for operation in methods.values()}
    components = types.components()
    components["Batch"]["properties"]["runs"]["maxItems"] = settings.max_batch_runs
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Runtally",
            "version": __version__,
            "description": INTRODUCTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": settings.base_path or "/", "description": "This server"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in used],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": SCHEMES,
            "headers": {
                "X-Request-Id": {
                    "description": "The request's id, as the server's log has it; one that was sent is kept.",
                    "required": True,
                    "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
                }
            },
        },
    }


class _Types:
    """Collects the types of all operations, so that each is described once."""

    def __init__(self) -> None:
        self._types: list[Any] = [Failure]

    def schema(self, types: tuple[Any, ...]) -> Schema:
        self._types += types
        schemas, _ = schemas_of(types)
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def components(self) -> dict[str, Schema]:
        return dict(sorted(schemas_of(self._types)[1].items()))


def _operation(route: Route, types: _Types) -> Schema:
    operation = route.operation
    summary, _, description = (inspect.getdoc(route.view) or "").partition("\n")
    described: Schema = {
        "operationId": route.name,
        "tags": [operation.tag],
        "summary": summary.rstrip("."),
        "description": description.strip() or summary,
        "security": [{scheme: []} for scheme in GUARDS[route.rule.name].schemes],
    }
    parameters = list(_parameters(route))
    if parameters:
        described["parameters"] = parameters
    if operation.body:
        described["requestBody"] = {"required": True, "content": _content(operation.body, types)}
    described["responses"] = {str(status): answer for status, answer in sorted(_responses(route, types))}
    return described


def _parameters(route: Route) -> Iterator[Schema]:
    operation = route.operation
    for place, struct in (("path", operation.path), ("query", operation.query), ("header", operation.headers)):
        for name, schema, required in fields_of(struct) if struct else ():
            # One view may answer under several paths.
            if place == "path" and f"{{{name}}}" not in route.path:
                continue
            yield {
                "name": name,
                "in": place,
                "required": required,
                "description": schema.pop("description", ""),
                "schema": schema,
            }


def _content(content: Content, types: _Types) -> Schema:
    media: Schema = {"schema": types.schema(content.types)} if content.types else {}
    if content.examples:
        media["examples"] = {title: {"value": value} for title, value in content.examples.items()}
    return {content.media_type: media, **{kind: {} for kind in content.also_as}}


def _responses(route: Route, types: _Types) -> Iterator[tuple[int, Schema]]:
    answers = route.operation.answers
    limits = _LIMIT_HEADERS if route.is_limited else {}
    for status, answer in answers.items():
        contents = {kind: media for content in answer.contents for kind, media in _content(content, types).items()}
        yield status, _response(answer, contents, limits)
    by_status: dict[int, list[type[RuntallyError]]] = {}
    for error in route.raises:
        by_status.setdefault(route.status_of(error), []).append(error)
    for status, errors in by_status.items():
        if status not in answers:
            meaning = " ".join(dict.fromkeys(error.message for error in errors))
            failure = route.operation.failure
            content = _content(failure, types) if failure else _failures(errors)
            yield status, _response(Answer(meaning), content, _headers_of(route, status, errors))


def _headers_of(route: Route, status: int, errors: Iterable[type[RuntallyError]]) -> Mapping[str, str]:
    """Return the headers of an error: requests that the view refuses were counted before.

    A wrong signature has no challenge, as HTTP defines none for it.
    """
    is_counted = route.is_limited and not {*errors}.isdisjoint(route.operation.raises)
    challenge = {"WWW-Authenticate": "How to send a key."} if {*errors} & {MissingKey, InvalidKey} else {}
    return (_LIMIT_HEADERS if is_counted else {}) | challenge | _ERROR_HEADERS.get(status, {})


def _response(answer: Answer, content: Mapping[str, Any], headers: Mapping[str, str]) -> Schema:
    described = {
        name: {"description": meaning, "schema": {"type": "string"}}
        for name, meaning in {**headers, **answer.headers}.items()
    }
    response: Schema = {"description": answer.meaning, "headers": {**_REQUEST_ID, **described}}
    if content:
        response["content"] = dict(content)
    return response


def _failures(errors: Iterable[type[RuntallyError]]) -> Schema:
    """Return the schema of errors, with the codes that this status can have here."""
    codes = {"properties": {"error": {"properties": {"code": {"enum": [error.code for error in errors]}}}}}
    examples = {
        error.code: {"value": {"ok": False, "error": {"code": error.code, "message": error.message}}}
        for error in errors
    }
    return {JSON: {"schema": {"$ref": "#/components/schemas/Failure", **codes}, "examples": examples}}


blueprint = Blueprint("docs", __name__, url_prefix="/api")

_EXTENSION = "runtally.openapi"

OPENAPI = Operation(tag="Reference", answers={200: Answer("OpenAPI 3.1, as JSON.", (Content((dict[str, Any],)),))})


@blueprint.get("/openapi.json")
@public
@documents(OPENAPI)
async def get_openapi() -> ResponseReturnValue:
    """Describe this API, for programs; people read it at /docs.

    The document is generated from the types that validate requests and answers, so it describes this server with its
    limits.
    """
    response = reply(described())
    response.headers["Cache-Control"] = "public, max-age=300"
    return response


def described() -> dict[str, Any]:
    """Return the document of this application, built once."""
    made = current_app.extensions
    if _EXTENSION not in made:
        made[_EXTENSION] = document(routes_of(current_app), services().settings)
    return dict(made[_EXTENSION])
