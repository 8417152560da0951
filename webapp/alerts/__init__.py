"""Alert rules of teams, and their deliveries."""
