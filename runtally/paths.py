"""A project's id in the path of its page. Pure; for pages, and for what links to them from elsewhere."""

import re
from urllib.parse import quote

# Dots are resolved by a browser itself, however they are escaped; a word would be taken for a page below the project's.
_TAKEN = re.compile(r"~*(?:\.{1,2}|settings|send|runs|traces|costs)")
_HIDDEN = re.compile(r"~+(?:\.{1,2}|settings|send|runs|traces|costs)")


def path_of(project_id: str) -> str:
    """The id as it stands in a path, slashes as they are; `id_in` reads it back."""
    return quote("/".join(f"~{part}" if _TAKEN.fullmatch(part) else part for part in project_id.split("/")))


def id_in(path: str) -> str:
    """The id of a path whose percent signs are resolved already."""
    return "/".join(part[1:] if _HIDDEN.fullmatch(part) else part for part in path.split("/"))
