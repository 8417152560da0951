"""PostgreSQL and Redis for one machine, and the group of processes that is a running Echoscope.

Nothing in here knows Django's models or pages; with DATABASE_URL and REDIS_URL set, none of the servers is started.
"""
