"""What MkDocs is told of our Markdown: the README is its first page, and links out of docs/ are names of files."""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README as the first page, as if it were in docs/."""
    text = (ROOT / "README.md").read_text().replace("](docs/", "](").replace('src="docs/', 'src="')
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  # MkDocs' interface.
    """Write links to what is no file of docs/ as the name of the file."""

    def named(found: re.Match[str]) -> str:
        text, path, _ = found.groups()
        if files.get_file_from_path(path) is not None:
            return found[0]
        name = path.removeprefix("../")
        return text if text.strip("`") == name else f"{text} (`{name}`)"

    return _LINK.sub(named, markdown)
