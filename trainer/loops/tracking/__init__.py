"""What experiment trackers have in common, and traces."""
