"""Boards as raster images: previews, PNG, GIF and WebP."""
