"""Telemetry for LLM calls: the domain. No web framework, no templates, no charts."""

from runtally.files import ROOT, commit_of

__version__ = "0.1.0"
COMMIT = commit_of(ROOT)
"""The commit that this is, where that is known."""
PYTHON_CLIENT = f"runtally_client-{__version__}-py3-none-any.whl"
TYPESCRIPT_CLIENT = f"runtally-{__version__}.tgz"
BUILD = f"{__version__}+{COMMIT}" if COMMIT else __version__
"""The version with its commit, as people and logs read it."""

# The User-Agent of our own programs begins with one of these.
COMMAND, RELAY = "runtally-command/", "runtally-relay/"
COMMAND_AGENT = f"{COMMAND}{BUILD}"
RELAY_AGENT = f"{RELAY}{BUILD}"
