"""The small client of an Echoscope site: for scripts (`echoscope.client`) and for the shell (`python -m echoscope`).

It needs httpx and pydantic, and nothing of the site, the trainer or the environments.
"""

from echoscope.client import Client

__all__ = ["Client"]
