"""The launch form and what it shows beside its fields."""
