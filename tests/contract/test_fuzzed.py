"""Schemathesis sends what the OpenAPI document allows, and what it does not, to a running service."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import settings
from hypothesis import strategies as st
from schemathesis import AuthContext, Case, HookContext
from schemathesis.config import SchemathesisConfig
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import ignored_auth, negative_data_rejection

from api.managed.routes import KINDS
from api.openapi import document, routes_of
from runtally.access.keys import issue
from runtally.access.scopes import Scope
from runtally.audit import OPERATOR
from runtally.clock import system_clock
from runtally.db.database import Database
from runtally.reporting.document import SIGNATURE_HEADER, sign
from tests.serving import INGEST_KEY, Postgres, Server, running_server, settings_for
from webapp.app import create_app

SYNC_SECRET = "sync-secret-of-the-tests"
SETTINGS = settings_for("postgresql://nowhere")
# In addition to the smallest and largest values of each parameter, which are always tried.
EXAMPLES = settings().max_examples // 5
# Each takes two more requests, and whether a key is asked for does not hang on what else is sent.
KEYS_TRIED_OF_EACH = 10

# No schema can say "at most 24 hours in the future"; the document does, in words.
moments = st.datetimes(datetime(2020, 1, 1), datetime(2026, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # As hypothesis wants them.
schemathesis.openapi.format("date-time", moments.map(datetime.isoformat))
schemathesis.openapi.format(
    "timestamp",
    st.one_of(
        moments.map(datetime.isoformat),
        moments.map(lambda moment: moment.replace(tzinfo=None).isoformat()),
        moments.map(lambda moment: str(moment.timestamp())),
        moments.map(lambda moment: str(int(moment.timestamp() * 1000))),
    ),
)


@pytest.fixture(scope="module")
def fuzzed_server(postgres: Postgres) -> Iterator[Server]:
    """The service over a database of its own: what is sent to it is of no use to any other test."""
    url = postgres.create_seeded("fuzzed")
    with running_server(url, SERVICE_SYNC_SIGN=SYNC_SECRET, RELAY="off") as server:
        yield server


class ProjectKey:
    """Reads the metrics of a project; issued when there is a database."""

    secret = ""

    def get(self, _case: Case[Any], _context: AuthContext) -> str:
        return self.secret

    def set(self, case: Case[Any], data: str, _context: AuthContext) -> None:
        case.headers["Authorization"] = f"Bearer {data}"


@pytest.fixture(scope="module")
async def project_key(fuzzed_server: Server) -> None:
    async with Database(fuzzed_server.database_url) as database, database.session() as session:
        ProjectKey.secret = issue(
            session, system_clock(), OPERATOR, project_id="fuzzed", scopes=[Scope.METRICS_READ]
        ).secret


class Signature:
    """Signs the bytes that will be sent."""

    def get(self, case: Case[Any], _context: AuthContext) -> str:
        sent = case.as_transport_kwargs(base_url="http://127.0.0.1")
        request = requests.Request(sent["method"], sent["url"], data=sent.get("data"), json=sent.get("json"))
        body = request.prepare().body or b""
        assert isinstance(body, bytes | str)
        return sign(body.encode() if isinstance(body, str) else body, SYNC_SECRET)

    def set(self, case: Case[Any], data: str, _context: AuthContext) -> None:
        case.headers[SIGNATURE_HEADER] = data


def map_body(context: HookContext, body: Any) -> Any:  # noqa: ANN401  # Any JSON value.
    """Whole numbers without a fraction, as nearly all clients write them: to a schema 72.0 is an integer, here it is not."""
    if isinstance(body, dict):
        return {key: map_body(context, value) for key, value in body.items()}
    if isinstance(body, list):
        return [map_body(context, value) for value in body]
    return int(body) if isinstance(body, float) and body.is_integer() else body


@pytest.fixture(scope="module")
def described(project_key: None) -> BaseSchema:
    """What the service promises. A fixture, since cases are made with the tests, for seconds, and not each process has these."""
    schema = schemathesis.openapi.from_dict(
        document(routes_of(create_app(SETTINGS)), SETTINGS),
        config=SchemathesisConfig.from_dict(
            {
                "seed": 1,
                "output": {"sanitization": {"enabled": False}},
                "generation": {
                    "max-examples": EXAMPLES,
                    "deterministic": True,
                    "database": "none",
                    "no-shrink": True,
                    "allow-x00": False,
                },
                "auth": {"openapi": {"ingestKey": {"bearer": INGEST_KEY}, "ingestKeyHeader": {"api_key": INGEST_KEY}}},
            }
        ),
    )
    schema.auth(ProjectKey).apply_to(path="/api/metrics")
    schema.auth(Signature, refresh_interval=None).apply_to(path="/api/internal/pg-sync")
    schema.hook(map_body)
    # Other addresses of `/v1/...`, answered by the same code; and of what is managed all but budgets, as one is like the other.
    alike = "|".join(kind.kind for kind in KINDS if kind.kind != "budgets")
    return schema.exclude(path_regex=f"^/api/((otlp|public/otel)/.*v1/|({alike})(/|$))")


@pytest.fixture(autouse=True)
def known_to_schemathesis(request: pytest.FixtureRequest) -> None:
    """It asks for a test's id by a name that pytest has given up."""
    request.node._nodeid = request.node.nodeid  # noqa: SLF001


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    """One connection for all: to open it takes longer than most answers."""
    with requests.Session() as session:
        # Nor is the environment looked through for a proxy each time.
        session.trust_env = False
        yield session


@pytest.fixture(scope="module")
def keys_tried() -> Counter[str]:
    """Of how many requests to each operation it was seen that they need their key."""
    return Counter()


@schemathesis.pytest.from_fixture("described").parametrize()
def test_the_service_does_what_its_document_says(
    case: Case[Any], fuzzed_server: Server, session: requests.Session, keys_tried: Counter[str]
) -> None:
    excluded: list[Any] = []
    # A schema can't say that one parameter lets the body be partly wrong.
    if case.query.get("onError") == "skip":
        excluded.append(negative_data_rejection)
    keys_tried[case.operation.label] += 1
    if keys_tried[case.operation.label] > KEYS_TRIED_OF_EACH:
        excluded.append(ignored_auth)
    case.call_and_validate(base_url=fuzzed_server.url, session=session, excluded_checks=excluded)
