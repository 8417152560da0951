"""Processes of one run: the process group, control channels, FSDP2."""
