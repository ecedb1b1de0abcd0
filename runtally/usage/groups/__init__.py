"""Groups of runs by any dimensions: from the plan's sources to ranked groups with their sums and latencies."""
