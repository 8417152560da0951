"""Adapters that offer environments of other packages as text environments, one class per package."""
