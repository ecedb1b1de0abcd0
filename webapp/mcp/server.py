"""The server of the Model Context Protocol: its tools, and the actor of each call."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import wraps
from typing import Annotated, Any, ParamSpec

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import Tool, ToolAnnotations
from pydantic import Field, ValidationError

from runtally import __version__
from runtally.audit import ANYONE, Actor
from runtally.errors import RuntallyError
from runtally.usage.dimensions import DIMENSIONS
from runtally.usage.window import NamedRange
from webapp.mcp.answers import MAX_DIMENSIONS, MAX_ROWS, Answer, Answers, filter_of

P = ParamSpec("P")

asking: ContextVar[Actor] = ContextVar("asking", default=ANYONE)
"""Who asks; nobody may read anything before it is set."""

INSTRUCTIONS = (
    "Cost, usage and errors of LLM calls that Runtally has recorded. All tools only read. Amounts are US dollars as text, "
    "exact to the last digit; times are UTC. A project key knows its project, so that it can be left out."
)
_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

Project = Annotated[str | None, Field(description="The project's id; a project key knows its own.", max_length=128)]
Reach = Annotated[NamedRange, Field(description="How far back.")]
By = Annotated[
    tuple[str, ...],
    Field(
        description=f"Dimensions to group the rows by: {', '.join(DIMENSIONS)}, or metadata.<key>; with line the rows are the "
        "lines of the cost: input, cache reads and writes, output, searches, service tier, region and so on.",
        max_length=MAX_DIMENSIONS,
    ),
]
Filters = Annotated[
    dict[str, str] | None,
    Field(
        description=f"Only runs with these values: by {', '.join(DIMENSIONS)}, or metadata.<key>, such as "
        '{"model": "gpt-4o-mini", "metadata.feature": "search"}.'
    ),
]
Rows = Annotated[int, Field(description="How many rows at most.", ge=1, le=MAX_ROWS)]


class ExactServer(MCPServer[Any]):
    """A server that refuses arguments which a tool does not have.

    The library leaves them out, so that an agent which asks for one model would take the sum of all models for its cost.
    """

    async def list_tools(self) -> list[Tool]:
        return [
            tool.model_copy(update={"input_schema": {**tool.input_schema, "additionalProperties": False}})
            for tool in await super().list_tools()
        ]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None) -> Any:  # noqa: ANN401  # The library's.
        names = {tool.name: sorted(tool.input_schema["properties"]) for tool in await self.list_tools()}
        for given in arguments:
            if name in names and given not in names[name]:
                raise ToolError(f"{name} has no argument `{given}`; it has: {', '.join(names[name]) or 'none'}.")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                faults = error.__cause__.errors(include_url=False)
                said = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults)
                raise ToolError("; ".join(said)) from None
            raise


def create_server(answers: Answers) -> MCPServer[Any]:
    """Return the server with all tools."""
    server = ExactServer("runtally", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")

    def tool(ask: Callable[P, Awaitable[Answer]]) -> None:
        @wraps(ask)
        async def answered(*args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
            try:
                return await ask(*args, **kwargs)
            except RuntallyError as error:
                raise ToolError(error.message) from None

        server.add_tool(answered, annotations=_READS)

    @tool
    async def list_projects() -> dict[str, Any]:
        """List the projects that you may read: id and name."""
        return await answers.list_projects(asking.get())

    @tool
    async def usage(
        project: Project = None,
        by: By = ("provider", "model"),
        filters: Filters = None,
        range: Reach = NamedRange.LAST_7_DAYS,  # noqa: A002  # The name that pages and the API have.
        limit: Rows = 20,
    ) -> dict[str, Any]:
        """Return cost, runs, errors and tokens of a project or of all, in total and by dimensions, the dearest row first."""
        return await answers.usage(asking.get(), filter_of(project, filters), by, range, limit)

    @tool
    async def dearest_sessions(
        project: Project = None,
        filters: Filters = None,
        range: Reach = NamedRange.LAST_7_DAYS,  # noqa: A002  # As above.
        limit: Rows = 10,
    ) -> dict[str, Any]:
        """Return the sessions of a project that cost most."""
        return await answers.dearest_sessions(asking.get(), filter_of(project, filters), range, limit)

    @tool
    async def errors(
        project: Project = None,
        filters: Filters = None,
        range: Reach = NamedRange.LAST_7_DAYS,  # noqa: A002  # As above.
        limit: Rows = 20,
    ) -> dict[str, Any]:
        """Return how often runs of a project failed, by status, error code, provider and model."""
        return await answers.errors(asking.get(), filter_of(project, filters), range, limit)

    @tool
    async def price(
        provider: Annotated[str, Field(description="Exactly as runs send it, such as openai.", max_length=256)],
        model: Annotated[str, Field(description="Exactly as runs send it, such as gpt-4o-mini.", max_length=256)],
        project: Project = None,
        input_tokens: Annotated[int, Field(description="Long contexts may have another price.", ge=0)] = 0,
    ) -> dict[str, Any]:
        """Return the price of a model that is in force now, with what the project has negotiated."""
        return await answers.price(asking.get(), provider, model, project, input_tokens)

    @tool
    async def budget(project: Project = None) -> dict[str, Any]:
        """Return a project's budgets: of this month what is spent and left, and the forecast; by day and by value what is spent."""
        return await answers.budget(asking.get(), project)

    return server
