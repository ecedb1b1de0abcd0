"""Write a project's id into the path of its page, and read it back. Pure."""

import re
from urllib.parse import quote

# Browsers resolve dots in paths, however they are escaped; a word would be taken for a page of the project.
_TAKEN = re.compile(r"~*(?:\.{1,2}|settings|send|runs|traces|costs)")
_HIDDEN = re.compile(r"~+(?:\.{1,2}|settings|send|runs|traces|costs)")


def path_of(project_id: str) -> str:
    """Return the id as part of a path, with its slashes; `id_in` reads it back."""
    return quote("/".join(f"~{part}" if _TAKEN.fullmatch(part) else part for part in project_id.split("/")))


def id_in(path: str) -> str:
    """Return the id in a path whose percent signs are already decoded."""
    return "/".join(part[1:] if _HIDDEN.fullmatch(part) else part for part in path.split("/"))
