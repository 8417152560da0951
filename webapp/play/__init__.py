"""Playing an environment oneself: the same rules, rewards and budgets as the policy has. Nobody trains on it."""
