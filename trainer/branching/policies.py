"""The policies that can play branches: weights of a run, or its hosted model."""

from __future__ import annotations

from trainer.branching.hosted_player import HostedPlayer
from trainer.branching.local_player import LocalPlayer
from trainer.branching.player import BranchPlayer, Weights
from trainer.loops.recorded_attempts import RecordingError, last_settings


def load_player(weights: Weights, *, device: str = "", threads: int = 0, servers: bool = False) -> BranchPlayer:
    """Load weights, or connect to the endpoint of a run whose policy is a hosted model.

    Args:
        device: device of the policy; empty: the run's.
        threads: number of CPU threads; 0: the run's.
        servers: whether the vLLM servers of the run get the weights and sample.
    Raises:
        RecordingError: the weights are not there.
        ModelError: they cannot be loaded.
        RefusedError: the API key of the endpoint is malformed.
    """
    config = last_settings(weights.folder)
    if not config.hosted.url:
        return LocalPlayer.load(weights, config, device=device, threads=threads, servers=servers)
    if weights.iteration:
        raise RecordingError("the policy of this run is a hosted model, which has no checkpoints: name none")
    return HostedPlayer(config, weights.folder)
