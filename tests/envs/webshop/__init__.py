"""Tests of the shop, part by part."""
