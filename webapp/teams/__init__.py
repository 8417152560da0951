"""Users, teams and who may do what. Nothing about runs."""
