"""The targets of `make` that check and test a checkout: they set it up and run the tools. Standard library only."""
