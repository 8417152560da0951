"""What operators need: health and readiness, figures for monitoring, log lines, retention. It shows nobody's runs."""
