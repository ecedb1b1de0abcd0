"""Closed days: their versions, which say whether the memo is still right, and the runs at the edge of a past period."""
