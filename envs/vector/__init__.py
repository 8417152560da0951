"""Batches of environments of one kind: array implementations, and a loop for all others."""

from envs.vector.batch_env import BatchEnv, BatchTurn, group_seeds
from envs.vector.batch_registry import make_batch
from envs.vector.gymnasium_env import TextVectorEnv

__all__ = ["BatchEnv", "BatchTurn", "TextVectorEnv", "group_seeds", "make_batch"]
