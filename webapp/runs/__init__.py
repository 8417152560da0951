"""Training runs: their life, the processes behind them, what they told, and how it reaches a browser."""
