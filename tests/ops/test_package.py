"""The built package, installed by itself in an empty environment outside the checkout."""

import shlex
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from runtally import BUILD, COMMIT, PYTHON_CLIENT, TYPESCRIPT_CLIENT
from runtally.files import CHECKOUT
from tests.folders import open_folder
from tests.ops.processes import run, started, until
from tests.serving import PATIENCE_SECONDS, free_port, is_live

UV = str(Path(sys.executable).with_name("uv"))
POINT = {"projectId": "shop", "provider": "openai", "model": "gpt-4o-mini", "inputTokens": 1200, "outputTokens": 350}


def uv(*arguments: str) -> None:
    done = subprocess.run([UV, "--quiet", *arguments], cwd=CHECKOUT, check=False, capture_output=True, text=True)  # noqa: S603  # Our own command.
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """The programs of an environment that holds the wheel, made from the sdist, and what it depends on."""
    with open_folder("runtally-package-") as folder:
        # The versions of the lock file, which are in uv's cache.
        uv(
            "export",
            "--frozen",
            "--no-dev",
            "--no-emit-project",
            "--no-hashes",
            "--output-file",
            f"{folder}/locked.txt",
        )
        uv("build", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(folder))
        [wheel] = folder.glob("*.whl")
        uv("venv", "--python", sys.executable, f"{folder}/venv")
        uv("pip", "install", "--python", f"{folder}/venv", "--constraints", f"{folder}/locked.txt", str(wheel))
        yield folder / "venv" / "bin"


def test_the_package_holds_every_template_static_file_guide_and_migration(installed: Path) -> None:
    packed = next(installed.parent.glob("lib/python*/site-packages/runtally/_files"))
    tracked = subprocess.run(
        ["git", "ls-files", "alembic", "docs/*.md", "static", "templates"],  # noqa: S607
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()

    assert len(tracked) > 100
    assert [path for path in tracked if not (packed / path).is_file()] == []


def test_the_installed_service_migrates_and_serves_a_page_a_static_file_a_chart_and_a_guide(
    installed: Path, data_dir: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(installed / "runtally"), "serve", "--provision", "--port", str(port)]
    settings = {"SERVICE_DEV_MODE": "1", "INGEST_API_KEY": "key", "LOG_LEVEL": "WARNING"}

    with (
        started(command, data_dir, user=None, **settings) as process,
        httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as client,
    ):
        try:
            until(lambda: process.poll() is not None or is_live(url))
            posted = client.post("/api/ingest", json=POINT, headers={"x-api-key": "key"})
            page = client.get("/projects/shop")
            style = client.get("/static/css/tokens.css")
            chart = client.get("/charts/cost.svg?project=shop")
            guide = client.get("/guides/pricing")
            health = client.get("/api/health").json()
            runs = client.get("/runs?project=shop")
            parquet = client.get("/runs/export.parquet?project=shop")
        finally:
            process.terminate()

    assert posted.status_code == 200, posted.text
    assert page.status_code == 200
    assert "gpt-4o-mini" in page.text
    assert (style.status_code, style.headers["Content-Type"].partition(";")[0]) == (200, "text/css")
    assert (chart.status_code, chart.text.startswith("<svg")) == (200, True)
    assert (guide.status_code, "How a run finds its price" in guide.text) == (200, True)
    assert health["migrations"] == "current"
    # The library of Parquet is an extra.
    assert "export.csv" in runs.text
    assert "export.parquet" not in runs.text
    assert parquet.status_code == 501
    assert "runtally[parquet]" in parquet.text


def test_a_package_that_is_built_after_the_clients_holds_those_of_its_version(installed: Path, tmp_path: Path) -> None:
    [source] = installed.parent.parent.glob("*.tar.gz")
    with tarfile.open(source) as packed:
        packed.extractall(tmp_path, filter="data")
    [root] = tmp_path.iterdir()
    (root / "dist").mkdir(exist_ok=True)
    for name in (PYTHON_CLIENT, TYPESCRIPT_CLIENT, "runtally-0.0.9.tgz"):
        (root / "dist" / name).write_text(name)

    uv("build", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(tmp_path), str(root))

    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as found:
        assert {name for name in found.namelist() if "/clients/" in name} == {
            f"runtally/_files/clients/{name}" for name in (PYTHON_CLIENT, TYPESCRIPT_CLIENT)
        }


def test_the_package_says_of_which_commit_it_is(installed: Path, data_dir: Path) -> None:
    assert COMMIT
    assert run([str(installed / "runtally"), "--version"], data_dir).stdout == f"runtally, version {BUILD}\n"


@pytest.mark.parametrize(
    ("settings", "extra"),
    [
        ({"OIDC_ISSUER": "https://id.example.com", "OIDC_CLIENT_ID": "us", "OIDC_CLIENT_SECRET": "s"}, "oidc"),
        ({"ARCHIVE_URL": "/nowhere"}, "parquet"),
    ],
)
def test_a_setting_whose_library_is_missing_names_the_extra_before_anything_starts(
    installed: Path, data_dir: Path, settings: dict[str, str], extra: str
) -> None:
    done = run([str(installed / "runtally"), "serve", "--provision", "--port", "0"], data_dir, **settings)

    assert done.returncode == 1
    command = done.stderr.rpartition("not installed: ")[2].strip()
    assert command == f"uv pip install --python {installed.parent} 'runtally[{extra}]'"
    # Of this environment, which has no pip; without changing it.
    uv(*shlex.split(command)[1:], "--dry-run")
    assert not (data_dir / "postgres").exists()


def test_messages_of_the_installed_service_name_its_own_command(installed: Path, data_dir: Path) -> None:
    done = run(
        [str(installed / "runtally"), "demo", "--url", f"http://127.0.0.1:{free_port()}", "--key", "k"], data_dir
    )

    assert done.returncode == 1
    assert "`runtally serve --provision`" in done.stderr
    assert "make " not in done.stderr


def test_an_editable_install_reads_the_checkout_alone() -> None:
    # The tests themselves run from one.
    packages = Path(sys.executable).parents[1] / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"

    assert not (packages / "runtally").exists()
    assert not (CHECKOUT / "runtally" / "_files").exists()


# The first number stands for the user; the interpreter cannot be root and another user at once.
@pytest.mark.parametrize(
    ("user", "given", "expected"),
    [
        (0, {"HOME": "/root"}, "/var/lib/runtally"),
        (1000, {"HOME": "/home/ada"}, "/home/ada/.local/share/runtally"),
        (1000, {"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}, "/data/runtally"),
        (1000, {"HOME": "/home/ada", "XDG_DATA_HOME": "data"}, "/home/ada/.local/share/runtally"),
    ],
)
def test_data_of_an_installed_service_is_not_in_its_environment(
    installed: Path, user: int, given: dict[str, str], expected: str
) -> None:
    code = f"import os; os.geteuid = lambda: {user}; from runtally.files import *; print(default_data_dir())"
    done = subprocess.run(  # noqa: S603  # Our own interpreter.
        [str(installed / "python"), "-c", code], env=given, cwd="/", check=True, capture_output=True, text=True
    )

    assert done.stdout.strip() == expected
