"""The journal of a run: the file format, and the whole contract with the site."""
