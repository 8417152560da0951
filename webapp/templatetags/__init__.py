"""Filters and tags of the site's templates."""
