"""Client of an Echoscope site: for scripts (`echoscope.client`) and the shell (`python -m echoscope`).

Depends only on httpx and pydantic.
"""

from echoscope.client import Client

__all__ = ["Client"]
