"""Models behind OpenAI-compatible endpoints, asked over HTTP: dialogues as messages, retries, accounts, evaluations."""
