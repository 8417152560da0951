"""Tests of the WebShop environment."""
