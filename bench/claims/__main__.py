"""Entry point of `python -m bench.claims`."""

from bench.claims.precision import main

main()
