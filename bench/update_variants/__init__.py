"""Parts of an update on the CPU, beside how they were before."""
