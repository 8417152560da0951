"""Parts of the site without a subject of their own: ids, formatting, broadcasting, scheduling."""
