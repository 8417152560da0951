"""Play on from positions of recorded attempts: branches, the value of positions, the influence of thoughts."""
