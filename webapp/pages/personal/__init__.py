"""Pages of one user across the site: command palette, inbox, follows."""
