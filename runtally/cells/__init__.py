"""Cells: the databases that hold projects with all their data."""
