"""An experiment with a badge: who sends its runs, and how its answers are read."""

from dataclasses import dataclass
from xml.etree import ElementTree as ET

import httpx

from runtally.audit import OPERATOR
from runtally.db.database import Database
from runtally.experiments import edit
from runtally.experiments.verdict import Rule
from tests.factories import make_run

SVG = "image/svg+xml"


@dataclass(frozen=True)
class Trial:
    """The test's own experiment: who sends its runs, who owns it, and who looks at its badge without any key."""

    sender: httpx.AsyncClient
    database: Database
    project_id: str
    id: str
    reader: httpx.AsyncClient

    async def send(self, *statuses: str, id_: str | None = None, project_id: str | None = None) -> None:
        runs = [make_run(experimentId=id_ or self.id, status=status) for status in statuses]
        response = await self.sender.post(
            "/api/ingest", json={"projectId": project_id or self.project_id, "runs": runs}
        )
        assert response.status_code == 200, response.text

    async def get(self, suffix: str = "", *, accept: str = "*/*", **parameters: str) -> httpx.Response:
        return await self.reader.get(f"{self.id}{suffix}", params=parameters, headers={"Accept": accept})

    async def make_private(self) -> str:
        async with self.database.session() as session:
            return edit.make_private(session, OPERATOR, await edit.get(session, self.project_id, self.id))

    async def set_rule(self, rule: Rule) -> None:
        async with self.database.session() as session:
            edit.set_rule(session, OPERATOR, await edit.get(session, self.project_id, self.id), rule)


def title(response: httpx.Response) -> str | None:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == SVG
    root = ET.fromstring(response.content)  # noqa: S314  # Our own output; parsing is the test.
    return root.findtext("{http://www.w3.org/2000/svg}title")


def stable_headers(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name not in {"x-request-id", "date"}}
