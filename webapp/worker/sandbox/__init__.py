"""Confinement of trainers to parts of the site's data folder and of the machine."""
