"""Alert rules of teams and what was sent because of them."""
