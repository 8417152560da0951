"""Questions to policies about recorded attempts: branches, value by play, influence of thoughts."""
