"""Confinement of trainers: what of the site's data folder a run may reach."""
