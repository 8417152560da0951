"""Journal of a run: events, reader, writer, and the contract with the site."""
