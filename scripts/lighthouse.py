"""Measures overview, project page and runs with the demo: with Lighthouse, and when a slow line shows the first chart.

    make lighthouse
    make lighthouse BUSY=1

Exits with 1 if a score is below the least, or a chart is seen too late; on a machine that is said to be busy how fast pages are
is printed alone. Needs Node and Chromium; brings a server with a
Postgres of its own. Scores are those of the desktop, and like the seconds the best of three: a busy machine makes pages
slow. What a phone would score is printed, not judged, because it is this machine slowed down; how long its scripts keep it
busy, and how many requests and bytes it needs, is printed as well.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "scripts" / "lighthouse"
PROGRAM = FOLDER / "node_modules" / ".bin" / "lighthouse"
PAGES = {"overview": "/", "project": "/projects/support-agent", "runs": "/runs"}
CHARTED = ("overview", "project")
LEAST = 95
SPEED = "performance"
"""The category whose score says how busy the machine is, too."""
TRIES = 3
# A slow line: what it takes before an answer begins, and how much comes each second.
LATENCY_MS = 300
BYTES_PER_SECOND = 50_000
MOST_SECONDS_TO_CHART = 1.5
# A frame is not drawn before the style sheet is there; the one after that in which the chart has a size shows it.
NOTE_FIRST_CHART = """
const look = () => {
  const path = document.querySelector(".chart-plot svg path");
  if (path?.getBoundingClientRect().width) requestAnimationFrame(() => (window.firstChart = performance.now()));
  else requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
START_SECONDS = 60
CHROME_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


def main() -> int:
    options = _options()
    chromium = options.chromium
    missing = [name for name in ("npm", chromium) if shutil.which(name) is None]
    if missing:
        print(f"Install {' and '.join(missing)} to measure pages with Lighthouse.", file=sys.stderr)
        return 1
    subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], cwd=FOLDER, check=True
    )
    with _demo() as url:
        environment = {**os.environ, "CHROME_PATH": chromium}
        found = {name: _best(url + path, environment) for name, path in PAGES.items()}
        for name, path in PAGES.items():
            print(f"{name} on a phone: {_phone(url + path, environment)}")
        seconds = _seconds_to_chart(url, chromium)
    for name, scores in found.items():
        chart = f"; first chart after {seconds[name]:.2f} s on a slow line" if name in seconds else ""
        print(f"{name}: {_text(scores)}{chart}")
    if options.busy:
        return int(any(score < LEAST for scores in found.values() for name, score in scores.items() if name != SPEED))
    are_early = max(seconds.values()) < MOST_SECONDS_TO_CHART
    return int(not (are_early and all(_are_enough(scores) for scores in found.values())))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure pages with Lighthouse.")
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="the browser's program")
    parser.add_argument("--busy", action="store_true", help="print how fast pages are, without judging it")
    return parser.parse_args()


def _best(url: str, environment: dict[str, str]) -> dict[str, int]:
    best: dict[str, int] = {}
    for _ in range(TRIES):
        scores = _scores(_report(url, environment, "--preset=desktop"))
        best |= {name: max(score, best.get(name, 0)) for name, score in scores.items()}
        if _are_enough(best):
            break
    return best


def _are_enough(scores: dict[str, int]) -> bool:
    return bool(scores) and min(scores.values()) >= LEAST


def _phone(url: str, environment: dict[str, str]) -> str:
    report = _report(url, environment)
    if not report:
        return _text({})
    audits = report["audits"]
    blocked, size = (audits[name]["numericValue"] for name in ("total-blocking-time", "total-byte-weight"))
    requests = len(audits["network-requests"]["details"]["items"])
    return f"{_text(_scores(report))}; blocked for {blocked:.0f} ms, {requests} requests, {size / 1000:.0f} KB"


def _scores(report: dict[str, Any]) -> dict[str, int]:
    return {name: round(100 * (category["score"] or 0)) for name, category in report.get("categories", {}).items()}


def _report(url: str, environment: dict[str, str], *options: str) -> dict[str, Any]:
    """Return the report; an empty one where it fails, as on a machine so busy that Chromium reports NO_NAVSTART."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            str(PROGRAM),
            url,
            "--quiet",
            "--output=json",
            f"--output-path={report}",
            f"--only-categories={SPEED},accessibility,best-practices",
            f"--chrome-flags={CHROME_FLAGS}",
            *options,
        ]
        if subprocess.run(command, env=environment, check=False).returncode:
            return {}
        found: dict[str, Any] = json.loads(report.read_text())
    return found


def _seconds_to_chart(url: str, chromium: str) -> dict[str, float]:
    """Return when each page shows its first chart to a browser that has nothing of it yet."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROME_FLAGS.split())
        try:
            return {name: min(_first_chart(browser, url + PAGES[name]) for _ in range(TRIES)) for name in CHARTED}
        finally:
            browser.close()


def _first_chart(browser: Browser, url: str) -> float:
    page = browser.new_page()
    try:
        line = {"offline": False, "latency": LATENCY_MS} | dict.fromkeys(
            ("downloadThroughput", "uploadThroughput"), BYTES_PER_SECOND
        )
        page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", line)
        page.add_init_script(NOTE_FIRST_CHART)
        page.goto(url)
        page.wait_for_function("() => window.firstChart")
        return float(page.evaluate("() => window.firstChart")) / 1000
    finally:
        page.close()


def _text(scores: dict[str, int]) -> str:
    return ", ".join(f"{name} {score}" for name, score in scores.items()) or "not measured"


@contextmanager
def _demo() -> Iterator[str]:
    """A server with the demo, and its URL."""
    folder = Path(tempfile.mkdtemp(prefix="runtally-lighthouse-"))
    # Postgres does not run as root, so its user must be able to reach the folder.
    folder.chmod(0o755)
    url = f"http://127.0.0.1:{_free_port()}"
    environment = {**os.environ, "DATA_DIR": str(folder), "SERVICE_DEV_MODE": "1", "LOG_LEVEL": "ERROR"}
    runtally = str(Path(sys.executable).with_name("runtally"))
    serve = [runtally, "serve", "--provision", "--port", url.rpartition(":")[2]]
    server = subprocess.Popen(serve, env=environment, stdout=subprocess.DEVNULL)
    try:
        _wait_for(f"{url}/api/health")
        subprocess.run([runtally, "demo", "--url", url], env=environment, check=True, stdout=subprocess.DEVNULL)
        yield url
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(url: str) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with suppress(httpx.HTTPError):
            if httpx.get(url).is_success:
                return
        time.sleep(0.2)
    raise SystemExit(f"The server did not start within {START_SECONDS} seconds.")


if __name__ == "__main__":
    sys.exit(main())
