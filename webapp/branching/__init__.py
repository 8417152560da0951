"""Questions to policies about attempts: branches, value by play, influence of thoughts."""
