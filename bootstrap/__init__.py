"""Set-up of a checkout on a fresh machine. Standard library only."""
