"""Websocket consumers and the frames they send."""
