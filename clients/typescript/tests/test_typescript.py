"""The TypeScript client as npm packs it, with real SDKs and runtimes; the tests themselves are in TypeScript."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from clients.environments import npm
from tests.fake_provider import CANARY, Provider, running_provider
from tests.guides import code_in
from tests.serving import Server

HERE = Path(__file__).parent
CLIENT = HERE.parent
MAX_PACKED_BYTES = 10_000


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the client from its package beside the SDKs of the lock file, and give the folder."""
    folder = tmp_path_factory.mktemp("typescript")
    npm("ci", cwd=CLIENT)
    run("npm", "pack", "--silent", "--pack-destination", str(folder), cwd=CLIENT)
    for path in HERE.glob("*.*"):
        shutil.copy(path, folder)
    npm("ci", cwd=folder)
    (package,) = folder.glob("runtally-*.tgz")
    npm("install", "--no-save", package.name, cwd=folder)
    return folder


@pytest.fixture(scope="session")
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def variables(provider: Provider, dev_server: Server, project_id: str) -> dict[str, str]:
    """The environment of the tests. In dev mode they may read what was stored."""
    return {
        **os.environ,
        "CANARY": CANARY,
        "USAGE_CASES": str(CLIENT.parent / "usage_cases.json"),
        "PROVIDER_URL": provider.url,
        "RUNTALLY_API_KEY": dev_server.ingest_key,
        "RUNTALLY_PROJECT": project_id,
        "RUNTALLY_URL": dev_server.url,
    }


@pytest.mark.parametrize("name", sorted(path.stem for path in HERE.glob("*.test.ts")))
def test_the_typescript_client(name: str, installed: Path, variables: dict[str, str]) -> None:
    # A test that fails may leave a client that goes on trying, and a program that never ends.
    run("node", "--import", "tsx", "--test", "--test-timeout=300000", f"{name}.ts", cwd=installed, env=variables)


@pytest.mark.parametrize("number", range(len(code_in("sending.md", "typescript"))))
def test_the_guide_shows_how_to_use_it(
    number: int, installed: Path, provider: Provider, variables: dict[str, str]
) -> None:
    program = installed / f"guide-{number}.ts"
    program.write_text(code_in("sending.md", "typescript")[number])
    of_openai = {"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": provider.openai()}
    run("node", "--import", "tsx", program.name, cwd=installed, env=variables | of_openai)

    query = {"project": variables["RUNTALLY_PROJECT"]}
    lines = httpx.get(f"{variables['RUNTALLY_URL']}/runs/export.jsonl", params=query).text.splitlines()
    (stored,) = (json.loads(line) for line in lines)
    assert (stored["input_tokens"], stored["output_tokens"]) == (1200, 350)


def test_its_types_fit_those_of_the_sdks(installed: Path) -> None:
    run("npx", "tsc", "--project", "tsconfig.json", cwd=installed)


def test_it_is_small(installed: Path) -> None:
    program = """
    import { buildSync } from "esbuild";
    import { gzipSync } from "node:zlib";
    const bundle = { entryPoints: ["runtally"], bundle: true, minify: true, write: false, format: "esm", platform: "node" };
    process.stdout.write(String(gzipSync(buildSync(bundle).outputFiles[0].contents).length));
    """
    size = run("node", "--input-type=module", "--eval", program, cwd=installed)
    assert int(size) <= MAX_PACKED_BYTES


def run(*command: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-20_000:]
    return done.stdout
