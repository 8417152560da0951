"""Reports: Markdown documents of a team with embedded trajectories, charts and results, and their revisions."""
