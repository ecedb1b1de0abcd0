"""`runtally config`: apply a file of configuration over the API, and write one."""

import os
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import click
import httpx
import msgspec
import yaml

from webapp.cli.output import echo

SECONDS = 300.0
MOST_VALUES = 1_000_000
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_encoder = msgspec.json.Encoder(decimal_format="number")
_decoder = msgspec.json.Decoder(float_hook=Decimal)

Lines = dict[str, int]
"""The line of each place, such as `budgets[3].amountUSD`."""

url_option = click.option("--url", envvar="RUNTALLY_URL", required=True, help="Address of the server; RUNTALLY_URL.")
key_option = click.option("--key", envvar="RUNTALLY_KEY", required=True, help="Its key; better in RUNTALLY_KEY.")


@click.group()
def config() -> None:
    """Configuration as code, over the API: apply, export.

    \b
    Example: runtally config apply runtally.yaml --dry-run --url https://llm.example.com
    """


@config.command(epilog="Example: runtally config apply runtally.yaml --dry-run")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@click.option(
    "--prune", multiple=True, metavar="KIND", help="Delete what the file leaves out of this kind, in its projects."
)
@url_option
@key_option
def apply(file: Path, prune: tuple[str, ...], url: str, key: str, *, dry_run: bool) -> None:
    """Make and change things until they are as FILE says, all or none, and print what changed.

    FILE is YAML, or JSON: for each kind a list, with the fields that the API has. ${NAME} stands for a variable of the
    environment, for addresses that are secrets. Applying it again changes nothing.
    """
    lines: Lines = {}
    with click.open_file(str(file), encoding="utf-8") as opened:
        resources = _read(file, opened.read(), lines)
    body = {"resources": resources, "prune": prune, "dryRun": dry_run}
    answer = _ask(url, key, lambda path, message: _located(file, lines, path, message), body=body)
    for change in answer["changes"]:
        echo("\n".join(_lines_of(change)))
    numbers = [sum(one["action"] == action for one in answer["changes"]) for action in ("make", "change", "delete")]
    said = "{} made, {} changed, {} deleted".format(*numbers)
    done = "; this was a dry run, nothing was changed" if dry_run else ""
    echo(f"{said}, {answer['unchanged']} unchanged{done}.", err=True)


@config.command(epilog="Example: runtally config export > runtally.yaml")
@click.option("--project", "project_id", help="Only what belongs to this project.")
@url_option
@key_option
def export(project_id: str | None, url: str, key: str) -> None:
    """Print everything that the key may change, as a file for apply. It holds no secrets."""
    resources, query = dict[str, list[object]](), {} if project_id is None else {"projectId": project_id}
    while True:
        answer = _ask(url, key, "{}: {}".format, query=query)
        for kind, things in answer["resources"].items():
            resources.setdefault(kind, []).extend(things)
        if answer["nextAfter"] is None:
            break
        query["after"] = answer["nextAfter"]
    click.echo(yaml.dump(resources, Dumper=_Dumper, sort_keys=False, allow_unicode=True), nl=False)


class _Dumper(yaml.SafeDumper):
    """Writes amounts with all their digits."""


_Dumper.add_representer(
    Decimal, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:float", format(value, "f"))
)


def _ask(
    url: str,
    key: str,
    told: Callable[[str, str], str],
    *,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """Ask the server. Raises `ClickException` with what it refuses, as `told` says each of them."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    method, content = ("GET", None) if body is None else ("POST", _encoder.encode(body))
    try:
        with httpx.Client(timeout=SECONDS) as client:
            address = f"{url.rstrip('/')}/api/config"
            response = client.request(method, address, params=query, content=content, headers=headers)
        answer: dict[str, Any] = _decoder.decode(response.content)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise click.ClickException(f"{url} does not answer: {str(error) or type(error).__name__}.") from None
    except msgspec.DecodeError:
        raise click.ClickException(f"{url} answers {response.status_code}, but not as Runtally does.") from None
    if response.is_success:
        return answer
    refused = answer["error"]
    details = [f"  {told(one['path'], one['message'])}" for one in refused.get("details", ())]
    raise click.ClickException("\n".join([refused["message"], *details]))


def _located(file: Path, lines: Lines, path: str, message: str) -> str:
    """Say what is wrong, with the line of the nearest place that the file has."""
    place = path
    while place and place not in lines:
        place = place[: max(place.rfind("."), place.rfind("["), 0)]
    where = f"{file}:{lines[place]}" if place else str(file)
    return f"{where}: {path}: {message}" if path else f"{where}: {message}"


def _read(file: Path, text: str, lines: Lines) -> dict[str, Any]:
    """Read a file, and note the line of each place. Raises `ClickException`."""
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is not None and _size(node, {}) > MOST_VALUES:
            raise click.ClickException(
                f"{file}: It has more than {MOST_VALUES:,} values, each alias (*) counted in full."
            )
        found = {} if node is None else _value(file, loader, node, "", lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}" if mark else str(file)
        raise click.ClickException(f"{where}: This is no YAML: {error.problem}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise click.ClickException(f"{file}: This is no YAML.") from None
    if not isinstance(found, dict) or not all(isinstance(one, list) for one in found.values()):
        raise click.ClickException(f"{file}: Write a list for each kind, such as budgets.")
    return found


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Count the values below a node: aliases of aliases are more than any memory holds, in a few lines."""
    if id(node) not in known:
        parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        known[id(node)] = 1 + (0 if isinstance(node, yaml.ScalarNode) else sum(_size(part, known) for part in parts))
    return known[id(node)]


def _value(file: Path, loader: yaml.SafeLoader, node: yaml.Node, place: str, lines: Lines) -> object:
    lines[place] = node.start_mark.line + 1
    match node:
        case yaml.MappingNode():
            loader.flatten_mapping(node)
            found = dict[str, object]()
            for name_node, value in node.value:
                name, at = str(name_node.value), f"{place}.{name_node.value}" if place else str(name_node.value)
                found[name] = _value(file, loader, value, at, lines)
                lines[at] = name_node.start_mark.line + 1
            return found
        case yaml.SequenceNode():
            return [_value(file, loader, one, f"{place}[{number}]", lines) for number, one in enumerate(node.value)]
    kind, text = node.tag.removeprefix("tag:yaml.org,2002:"), str(node.value)
    match kind:
        case "null":
            return None
        case "bool" | "int":
            return loader.construct_object(node)
        case "float" if re.fullmatch(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?", text):
            return Decimal(text)
    for name in _VARIABLE.findall(text):
        if name not in os.environ:
            raise click.ClickException(f"{file}:{lines[place]}: {place}: The environment has no {name}.")
    return _VARIABLE.sub(lambda match: os.environ[match[1]], text)


def _lines_of(change: Mapping[str, Any]) -> list[str]:
    sign = {"make": "+", "change": "~", "delete": "-"}[change["action"]]
    what, before, after = " ".join(map(str, change["what"].values())), change["before"], change["after"]
    lines = [f"{sign} {change['kind']} {what}".rstrip()]
    if sign != "-":
        lines += [f"    {name}: {_shown(before.get(name))} -> {_shown(value)}" for name, value in after.items()]
        lines += [f"    {name}: {_shown(before[name])} -> {_shown(None)}" for name in before.keys() - after.keys()]
    if "secret" in change:
        lines.append(f"    secret, shown this once: {change['secret']}")
    return lines


def _shown(value: object) -> str:
    return "-" if value is None else _encoder.encode(value).decode()
