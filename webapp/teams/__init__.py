"""Users, their sessions and second factors, teams, permissions, and the audit log."""
