"""Notifications: alert rules, follows and mentions; the inbox of each user, and the outbox of mails and webhooks."""
