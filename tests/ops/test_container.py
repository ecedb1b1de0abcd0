"""The image that the Containerfile makes, built by buildah and run by podman: `make container`.

Flags of both commands name what needs no rights that a sandbox or a build host may lack: changing its root folder is all
that a build step asks for, and a container shares the network of its host.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from runtally.files import CHECKOUT
from tests.factories import make_run
from tests.ops.processes import started, until
from tests.ops.test_deploy import DEPLOY, program
from tests.poolers import running_pgbouncer
from tests.serving import INGEST_KEY, Postgres, free_port, is_live

BUILD_SECONDS = 300
START_SECONDS = 120
STOP_SECONDS = 30
# Not the user of the Containerfile: some hosts choose another.
USER = "54321"
# Where the certificates of this machine are, which a build behind a company's proxy needs.
CERTIFICATES = (Path("/etc/ssl/certs"), Path("/usr/local/share/ca-certificates"))


def call(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=BUILD_SECONDS)  # noqa: S603  # Ours.
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def podman() -> str:
    return program("podman")


@pytest.fixture(scope="module")
def image(podman: str) -> Iterator[str]:
    """The image on BASE_IMAGE, by its name."""
    buildah, base, name = program("buildah"), os.environ.get("BASE_IMAGE"), f"localhost/runtally-{uuid4().hex}"
    if base is None:
        pytest.skip("BASE_IMAGE names no image to build on: `make container` does")
    volumes = [f"--volume={folder}:{folder}:ro" for folder in CERTIFICATES if folder.exists()]
    command = [buildah, "build", "--isolation=chroot", "--format=docker", f"--build-arg=BASE={base}", *volumes]
    call(*command, f"--tag={name}", f"--file={DEPLOY / 'Containerfile'}", str(CHECKOUT))
    yield name
    call(podman, "rmi", "--force", name)


def running(podman: str, name: str, image: str, *command: str, **settings: str) -> list[str]:
    """Return the command that runs a container for a user that nobody knows, with the rights that compose.yaml leaves."""
    flags = [
        f"--name={name}",
        "--rm",
        "--network=host",
        "--read-only",
        "--tmpfs=/data:mode=1777",
        f"--user={USER}:{USER}",
    ]
    flags += [
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--ulimit=nofile=1024:1024",
        "--ulimit=nproc=1024:1024",
    ]
    if runc := shutil.which("runc", path="/usr/sbin:/usr/bin"):
        # The crun of Debian 12 starts nothing where the host has control groups of both versions.
        flags.append(f"--runtime={runc}")
    return [podman, "run", *flags, *(f"--env={name}={value}" for name, value in settings.items()), image, *command]


@pytest.fixture
def pooled_url(postgres: Postgres) -> Iterator[str]:
    """A database without a table, by TCP: nobody else may enter the folder of the tests' socket."""
    with running_pgbouncer(postgres.create("contained"), connections=20) as url:
        yield url
    postgres.drop("contained")


def test_a_user_without_a_name_serves_from_a_file_system_that_cannot_be_written(
    podman: str, image: str, pooled_url: str, tmp_path: Path
) -> None:
    port, name = free_port(), f"runtally-{uuid4().hex}"
    url = f"http://127.0.0.1:{port}"
    settings = {"DATABASE_URL": pooled_url, "PORT": str(port), "INGEST_API_KEY": INGEST_KEY, "LOG_LEVEL": "WARNING"}
    call(*running(podman, name, image, "migrate", **settings))

    command = running(podman, name, image, "serve", "--workers", "2", **settings)
    with started(command, tmp_path, PATH=os.environ["PATH"]) as service:
        try:
            until(lambda: service.poll() is not None or is_live(url), seconds=START_SECONDS)
            assert service.poll() is None, service.communicate()
            headers = {"Authorization": f"Bearer {INGEST_KEY}"}
            stored = httpx.post(f"{url}/api/ingest", json=make_run(projectId="shop"), headers=headers)
            page = httpx.get(f"{url}/sign-in")
            style = re.search(r'href="(/static/[^"]+\.css[^"]*)"', page.text)
            sheet = httpx.get(url + style[1]) if style else None
            well = call(podman, "healthcheck", "run", name)
            user, refusal = call(podman, "exec", name, "sh", "-c", "id -u; touch /opt/x 2>&1 || true").splitlines()
        finally:
            call(podman, "stop", f"--time={STOP_SECONDS}", name)

    assert stored.status_code == 200
    assert page.status_code == 200
    assert sheet
    assert sheet.headers["Content-Type"].startswith("text/css")
    assert "unhealthy" not in well
    assert user == USER
    assert "Read-only file system" in refusal
    # Ended when it was asked, rather than killed.
    assert service.returncode == 0


def test_the_image_is_for_no_root_and_has_no_embedded_postgres(podman: str, image: str) -> None:
    [found] = json.loads(call(podman, "image", "inspect", image))
    command = running(podman, f"runtally-{uuid4().hex}", image, "-m", "embedded_postgres")
    command.insert(2, "--entrypoint=python")
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603  # Ours.

    assert found["Config"]["User"] == "65532:65532"
    assert done.returncode == 1
    assert "No module named embedded_postgres" in done.stderr
