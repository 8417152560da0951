"""Description of an actor: its device, node and process, and its versions."""

from __future__ import annotations

import hashlib
import os
import platform
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import torch
import transformers

from trainer.cluster.errors import ClusterError
from trainer.policy.load import describe_device


@cache
def source_digest() -> str:
    """Return a digest of the trainer's own source: nodes with another version would play or learn differently."""
    digest, root = hashlib.sha256(), Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def library_versions() -> dict[str, str]:
    """Return the versions that must agree between the nodes of a run."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        "transformers": transformers.__version__,
        "echoscope": source_digest(),
    }


@dataclass(frozen=True)
class ActorDescription:
    """Device, node and process of an actor; `versions` maps libraries that results may depend on to their versions."""

    device: str
    node: str = field(default_factory=platform.node)
    pid: int = field(default_factory=os.getpid)
    versions: dict[str, str] = field(default_factory=library_versions)

    @classmethod
    def of_this_process(cls, device: torch.device) -> ActorDescription:
        """Describe an actor in this process that computes on this device."""
        return cls(describe_device(device))

    def named(self, name: str) -> str:
        """Return the actor's name with its location."""
        return f"{name} on {self.node}, process {self.pid}"


def check_versions(name: str, description: ActorDescription) -> None:
    """Raise ClusterError if an actor's versions differ from this process's versions."""
    for library, version in library_versions().items():
        other = description.versions.get(library)
        if other != version:
            raise ClusterError(
                f"{description.named(name)} has {library} {other}, but the trainer has {version}: install the same "
                "versions on all nodes, such as from one container image"
            )
