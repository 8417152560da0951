"""Adapters: environments of other packages as text environments, one class for each package."""
