"""Notifications of users inside the site: followed runs, comments, alerts; the inbox that lists them with mentions."""
