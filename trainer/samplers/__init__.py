"""Samplers: engines that continue dialogues token by token behind one small interface (base.py)."""
