"""Names, units, ranges and meanings of all metrics. Computes nothing."""
