"""Sets a fresh machine up, with nothing but the standard library. Starting the site is webapp/services' business."""
