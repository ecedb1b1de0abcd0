"""Telemetry for LLM calls: the domain. No web framework, no templates, no charts."""

__version__ = "0.1.0"
