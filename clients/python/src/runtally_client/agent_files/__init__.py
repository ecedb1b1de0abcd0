"""The model calls that coding agents keep on disk, read as runs: numbers, names and ids, never a prompt or an answer."""
