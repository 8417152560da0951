"""Views and URLs, one module for each page."""
