"""Embedded PostgreSQL and Redis, and the supervised processes of a running site. Imports no Django models.

With DATABASE_URL and REDIS_URL set, no server is started.
"""
