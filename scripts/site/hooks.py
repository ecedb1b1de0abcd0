"""Prepare our Markdown for MkDocs: the README becomes the first page, and links to files outside docs/ become plain names."""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from webapp.guides import GROUPS, with_links

ROOT = Path(__file__).resolve().parents[2]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the guides as the service does, and what else is in docs/."""
    guides = [{group: [f"{name}.md" for name in names]} for group, names in GROUPS.items()]
    config.nav = [{"Start": "index.md"}, *guides, {"About": ["decisions.md", "words.md", "licences.md"]}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README as the first page, as if it were in docs/."""
    text = (ROOT / "README.md").read_text().replace("](docs/", "](").replace('src="docs/', 'src="')
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  # MkDocs' interface.
    """Write links to what is no file of docs/ as the name of the file."""
    return with_links(markdown, lambda path: path if files.get_file_from_path(path) is not None else None)
