"""The projects of the overview, sorted and compared."""
