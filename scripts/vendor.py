"""Bundles the front-end packages of scripts/vendor/package.json into static/vendor. Needs Node; nothing else here does.

    python scripts/vendor.py

What it writes is committed: files, each with a `.br` file, licences, and README.md with versions and checksums. A second
run writes the same bytes.
"""

import hashlib
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "scripts" / "vendor"
MODULES = SOURCE / "node_modules"
TARGET = ROOT / "static" / "vendor"

# Node has the only Brotli that this script can count on.
BROTLI = """
const {readFileSync, writeFileSync} = require("fs");
const {brotliCompressSync, constants: c} = require("zlib");
const path = process.argv[1], data = readFileSync(path);
const params = {[c.BROTLI_PARAM_QUALITY]: 11, [c.BROTLI_PARAM_SIZE_HINT]: data.length};
writeFileSync(path + ".br", brotliCompressSync(data, {params}));
"""


@dataclass(frozen=True)
class Asset:
    """One file to ship: of which package, from which files of it, one after the other, and under which name."""

    package: str
    sources: tuple[str, ...]
    name: str


ASSETS = (
    # The extension must be there when htmx begins, and can do nothing before.
    Asset("htmx.org", ("dist/htmx.min.js", "dist/ext/hx-preload.min.js"), "htmx-and-preload.min.js"),
    Asset("@fontsource-variable/geist", ("files/geist-latin-wght-normal.woff2",), "geist-latin.woff2"),
)
BUNDLED = ("vega", "vega-lite", "vega-interpreter")
COMPRESSIBLE = {".js", ".css", ".svg"}


def main() -> None:
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=SOURCE, check=True)
    shutil.rmtree(TARGET, ignore_errors=True)
    rows = [row_of(copied(asset), f"{asset.package}, `{'` + `'.join(asset.sources)}`") for asset in ASSETS]
    rows += [row_of(path, " + ".join(BUNDLED)) for path in bundled()]
    for package in {asset.package for asset in ASSETS}:
        copy_licence(package)
    (TARGET / "README.md").write_text(readme(rows))


def manifest(package: str) -> dict[str, str]:
    read: dict[str, str] = json.loads((MODULES / package / "package.json").read_text())
    return read


def folder_of(package: str) -> Path:
    """`static/vendor/<package>@<version>`, the scope without its slash."""
    return TARGET / f"{package.removeprefix('@').replace('/', '-')}@{manifest(package)['version']}"


def copied(asset: Asset) -> Path:
    target = folder_of(asset.package) / asset.name
    target.parent.mkdir(parents=True, exist_ok=True)
    content = b"\n".join((MODULES / asset.package / source).read_bytes() for source in asset.sources)
    # Source maps are not shipped, so nobody should be sent to look for them.
    lines = [line for line in content.split(b"\n") if not line.startswith(b"//# sourceMappingURL=")]
    target.write_bytes(b"\n".join(lines) if asset.name.endswith(".js") else content)
    return target


def bundled() -> list[Path]:
    """Vega, Vega-Lite and the interpreter as ES modules: for the page, for the worker, and what both stand on."""
    folder = folder_of("vega")
    esbuild = ["node_modules/.bin/esbuild", "charts.js", "compile.js", "--bundle", "--splitting", "--format=esm"]
    options = ["--alias:vega=./vega.js", "--minify", "--target=es2022", "--legal-comments=none", "--log-level=warning"]
    names = ["--chunk-names=shared", "--out-extension:.js=.min.js", f"--outdir={folder}", "--metafile=meta.json"]
    subprocess.run([*esbuild, *options, *names], cwd=SOURCE, check=True)
    (folder / "LICENSES.txt").write_text(licences_of_bundle())
    return [folder / f"{name}.min.js" for name in ("charts", "compile", "shared")]


def licences_of_bundle() -> str:
    """The licence of every package that went into the bundle, those that Vega itself stands on among them."""
    meta = SOURCE / "meta.json"
    inputs = [Path(name).parts for name in json.loads(meta.read_text())["inputs"]]
    meta.unlink()
    packages = {
        "/".join(parts[1:3]) if parts[1].startswith("@") else parts[1] for parts in inputs if parts[0] == "node_modules"
    }
    texts = []
    for package in sorted(packages):
        files = sorted((MODULES / package).glob("LICEN[CS]E*"))
        text = files[0].read_text().strip() if files else manifest(package)["license"]
        texts.append(f"{package} {manifest(package)['version']}\n\n{text}\n")
    return ("\n" + "-" * 80 + "\n\n").join(texts)


def copy_licence(package: str) -> None:
    folder = folder_of(package)
    folder.mkdir(parents=True, exist_ok=True)
    found = sorted((MODULES / package).glob("LICENSE*"))
    shutil.copyfile(found[0], folder / "LICENSE")


def row_of(path: Path, source: str) -> str:
    """The table's line of a file, and that of its compressed form, which is written here."""
    if path.suffix in COMPRESSIBLE:
        subprocess.run(["node", "-e", BROTLI, str(path)], check=True)
    sums = [
        f"| `{file.relative_to(TARGET)}` | {source} | {file.stat().st_size:,} | `{sha256(file)}` |"
        for file in (path, path.with_name(f"{path.name}.br"))
        if file.exists()
    ]
    return "\n".join(sums)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def readme(rows: list[str]) -> str:
    packages = sorted({asset.package for asset in ASSETS} | set(BUNDLED))
    licences = [f"| {name} | {manifest(name)['version']} | {manifest(name)['license']} |" for name in packages]
    return "\n".join(
        [
            "# Vendored front-end assets",
            "",
            "Written by `python scripts/vendor.py` from the npm packages below; do not edit. The licence of each is in its",
            "folder. `charts.min.js` (in the page), `compile.min.js` (a worker) and `shared.min.js` bundle Vega, Vega-Lite and",
            "Vega's expression interpreter with what they stand on: `LICENSES.txt` beside them has the licences of all.",
            "",
            "| package | version | licence |",
            "|---|---|---|",
            *licences,
            "",
            "| file | made of | bytes | sha256 |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    main()
