"""Users, teams and permissions."""
