"""Telemetry for LLM calls: the domain. No web framework, no templates, no charts."""

__version__ = "0.1.0"

# The User-Agent of our own programs.
COMMAND_AGENT = f"runtally-command/{__version__}"
RELAY_AGENT = f"runtally-relay/{__version__}"
