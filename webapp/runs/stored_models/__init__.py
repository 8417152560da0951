"""Models in the stores of the workers: requests to download and delete them, and permissions."""
