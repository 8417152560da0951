"""Games of users in the environments."""
