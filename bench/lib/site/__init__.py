"""Parts of the benchmarks of the site: servers, filled databases, replayed journals."""
