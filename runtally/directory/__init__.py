"""Which cells there are, and where each project is."""
