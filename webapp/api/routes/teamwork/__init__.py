"""Endpoints of what a team does together: share links, annotations, alert rules."""
