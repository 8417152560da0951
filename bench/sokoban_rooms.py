"""Quality of generated rooms: solvable, not solved at the start, as long as requested, rarely repeated.

python -m bench.sokoban_rooms --count 2000 [--names Sokoban Boxoban] [--json PATH]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from collections import Counter
from pathlib import Path
from typing import Any

import envs
from envs.sokoban import rooms
from envs.sokoban.sokoban_env import Sokoban

NAMES = ("Sokoban", "LargeSokoban", "SokobanNewVocab", "Boxoban")


def measure(name: str, count: int) -> dict[str, Any]:
    """Generate rooms of the seeds 0 to count − 1. Raises AssertionError for an invalid puzzle."""
    env = envs.make(name)
    assert isinstance(env, Sokoban)
    kind, texts, lengths = env.settings, [], Counter[int]()
    began = time.perf_counter()
    for seed in range(count):
        texts.append(env.reset(seed=seed)[0])
        distance = env.hint().distance
        assert distance is not None, f"seed {seed} cannot be solved"
        assert env.level.boxes.isdisjoint(env.level.targets), f"seed {seed} is partly solved"
        lengths[distance] += 1
    seconds = time.perf_counter() - began
    shortest = max(kind.min_length, kind.boxes)
    weights = {
        length: length * math.exp(-(length - shortest) / rooms._LENGTH_SCALE)
        for length in range(shortest, kind.max_length + 1)
    }
    expected = {length: count * weight / sum(weights.values()) for length, weight in weights.items()}
    common = [length for length in expected if expected[length] >= 5]
    return {
        "name": name,
        "rooms": count,
        "duplicates": count - len(set(texts)),
        "seconds": seconds,
        "chi_square": sum((lengths[n] - expected[n]) ** 2 / expected[n] for n in common),
        "degrees_of_freedom": len(common) - 1,
        "lengths": {str(n): [lengths[n], round(expected[n], 1)] for n in expected},
        "outside": sum(seen for length, seen in lengths.items() if length not in expected),
        "sha256": hashlib.sha256("\n\n".join(texts).encode()).hexdigest()[:16],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--names", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = [measure(name, arguments.count) for name in arguments.names]
    print("| variant | rooms | unsolvable or solved | outside the range | duplicates | chi-square (dof) | sha256 |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for row in rows:
        print(
            f"| {row['name']} | {row['rooms']:,} | 0 | {row['outside']} | {row['duplicates']} | "
            f"{row['chi_square']:.1f} ({row['degrees_of_freedom']}) | `{row['sha256']}` |"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
