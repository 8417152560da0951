"""Studies: grids and searches of runs under one name, their results so far, verdicts and exports."""
