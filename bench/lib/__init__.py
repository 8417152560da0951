"""Parts of the benchmarks: contenders, comparison, fixtures."""
