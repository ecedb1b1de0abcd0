"""Serve static files under names that change with their content, so that browsers keep them; compress answers."""

import hashlib
import mimetypes
import re
from functools import cache, lru_cache
from pathlib import Path

from quart import Blueprint, Quart, Response, request, send_from_directory, url_for
from quart.typing import ResponseReturnValue
from quart.wrappers.response import IterableBody

from api.access import public
from api.reply import gzipped
from runtally import PYTHON_CLIENT, TYPESCRIPT_CLIENT
from runtally.errors import NotFound
from runtally.files import CLIENTS, ROOT

STATIC = ROOT / "static"
_ROOT = str(STATIC)
# Their paths contain their versions; CSS files name fonts among them by these paths.
VENDORED = "vendor/"
FOREVER = "public, max-age=31536000, immutable"
BRIEFLY = "public, max-age=300"
# None of our files has a longer path, and the system refuses longer ones.
MAX_PATH_BYTES = 200
# What the others build on; they follow by name.
FIRST_SHEETS = ("tokens", "base", "shell", "forms", "report", "chart", "budget", "lists", "narrow")
LAST_SHEET = "print"
_COMMENTS = re.compile(rb"/\*.*?\*/\s*", re.DOTALL)
_COMPRESSIBLE = ("text/", "application/json", "application/javascript", "image/svg+xml")

blueprint = Blueprint("assets", __name__)


def register(app: Quart) -> None:
    app.register_blueprint(blueprint)


def asset_url(path: str) -> str:
    """Return the URL of a file below `static/`, with a hash of its content where the path has no version."""
    version = None if path.startswith(VENDORED) else _digest_of(f"{_ROOT}/{path}", _changed_ns(f"{_ROOT}/{path}"))
    return _url(request.root_path, path, version)


def style_sheet_url() -> str:
    """Return the URL of the one style sheet of all pages."""
    return _url_of_style_sheet(request.root_path, _style_sheet()[1])


# In the folder of its source files, so that relative paths in them work.
@blueprint.get("/static/css/all.css")
@public
async def style_sheet() -> ResponseReturnValue:
    """Every file of `static/css` in one, because each further file would keep a page on a slow line white for longer."""
    text, version = _style_sheet()
    response = Response(text, content_type="text/css; charset=utf-8")
    response.headers["Cache-Control"] = FOREVER if request.args.get("v") == version else BRIEFLY
    return response


@blueprint.get("/static/<path:path>")
@public
async def show(path: str) -> ResponseReturnValue:
    """Serve a static file; compressed if it is text, or if there is a `.br` file and the browser accepts it."""
    if len(path.encode()) > MAX_PATH_BYTES:
        raise NotFound
    packed = STATIC / f"{path}.br"
    use_packed = request.accept_encodings.quality("br") > 0 and packed.is_file()
    response = await send_from_directory(
        STATIC,
        f"{path}.br" if use_packed else path,
        mimetype=mimetypes.guess_type(path)[0] or "application/octet-stream",
    )
    if use_packed:
        response.headers["Content-Encoding"] = "br"
    elif _is_compressible(response):
        # Our own text files are small; read whole they are compressed like any other answer.
        response.set_data(await response.get_data(as_text=False))
    response.vary.add("Accept-Encoding")
    # A URL with another hash than the file's is that of an older page: serve it, but do not let it be kept.
    is_current = path.startswith(VENDORED) or request.args.get("v") == _digest(STATIC / path)
    response.headers["Cache-Control"] = FOREVER if is_current else BRIEFLY
    return response


@blueprint.get("/clients/<name>")
@public
async def client(name: str) -> ResponseReturnValue:
    """Serve the package of a client, in the version of the server, to `pip` and `npm`, which cannot sign in."""
    if name not in served_clients():
        raise NotFound("This server has no such package of a client; `make clients` builds both in a checkout.")
    kind = "application/zip" if name == PYTHON_CLIENT else "application/gzip"
    response = await send_from_directory(CLIENTS, name, mimetype=kind)
    response.headers["Cache-Control"] = BRIEFLY
    return response


def served_clients() -> frozenset[str]:
    """Return the names of the packages of clients that were built with this server."""
    return frozenset(name for name in (PYTHON_CLIENT, TYPESCRIPT_CLIENT) if (CLIENTS / name).is_file())


async def compress(response: Response) -> Response:
    """Compress text that is large enough with gzip, which Quart does not do.

    Streams and compressed files are left alone.
    """
    if (
        _is_compressible(response)
        and "Content-Encoding" not in response.headers
        and not isinstance(response.response, IterableBody)
    ):
        response.vary.add("Accept-Encoding")
        if request.accept_encodings.quality("gzip") > 0:
            packed = gzipped(await response.get_data(as_text=False))
            if packed is not None:
                response.set_data(packed)
                response.headers["Content-Encoding"] = "gzip"
    return response


def _is_compressible(response: Response) -> bool:
    return (response.content_type or "").startswith(_COMPRESSIBLE)


def _digest(path: Path) -> str | None:
    """Return the start of the content's hash, computed once per change of the file; None for any other path."""
    if not path.resolve().is_relative_to(STATIC) or not path.is_file():
        return None
    return _digest_of(str(path), _changed_ns(str(path)))


def _changed_ns(path: str) -> int:
    return Path(path).stat().st_mtime_ns


@cache
def _digest_of(path: str, _changed_ns: int) -> str:
    return _hash_of(Path(path).read_bytes())


def _hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@cache
def _sheets() -> tuple[Path, ...]:
    """List the files of the style sheet in the order of its rules."""

    def place(sheet: Path) -> tuple[int, bool, str]:
        name = sheet.stem
        number = FIRST_SHEETS.index(name) if name in FIRST_SHEETS else len(FIRST_SHEETS)
        return number, name == LAST_SHEET, name

    return tuple(sorted((STATIC / "css").glob("*.css"), key=place))


def _style_sheet() -> tuple[bytes, str]:
    """Return the style sheet and the start of its hash."""
    return _joined(tuple(_changed_ns(str(sheet)) for sheet in _sheets()))


@lru_cache(maxsize=1)
def _joined(_changed_ns: tuple[int, ...]) -> tuple[bytes, str]:
    text = b"".join(_COMMENTS.sub(b"", sheet.read_bytes()) for sheet in _sheets())
    return text, _hash_of(text)


# A page names two dozen of them.
@cache
def _url_of_style_sheet(_root_path: str, version: str) -> str:
    return url_for("assets.style_sheet", v=version)


@cache
def _url(_root_path: str, path: str, version: str | None) -> str:
    return url_for("assets.show", path=path, v=version)
