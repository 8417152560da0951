"""Response times of many visitors while a run trains, relative to the same visitors while none trains.

    python -m bench.visitors                                    # 50 visitors, 60 seconds for each of four phases
    python -m bench.visitors --visitors 10 --seconds 10

It starts an own instance of the product in a temporary folder and launches a small run. Each visitor requests pages and
operations of the API in turn, with a pause of one second on average, and every fifth one holds a websocket of the run
and counts the time to its first frame at each connection. The run trains and is paused in turn, twice each; ratios are
those of the medians and 95th percentiles of both phases. Errors are answers with a status of 500 or more, requests
without an answer, and sockets that end. Visitors and product share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException
from websockets.typing import Origin

from bench.soak.instance import Instance, kill_leftovers
from bench.soak.soak_run import configs
from trainer.studies import machine

PAGES = ("/", "/runs/{}/", "/runs/{}/snapshot.json", "/runs/{}/trajectories", "/runs/{}/curves", "/workers")
OPERATIONS = ("/api/runs", "/api/runs/{}", "/api/runs/{}/trajectories", "/api/runs/{}/metrics")
PHASES = ("training", "paused", "training", "paused")
PAUSE = 1.0  # mean seconds between two requests of a visitor
WAIT = 300.0
KINDS = ("page", "api", "socket")
ITERATIONS = 1_000_000


@dataclass
class Measured:
    """Milliseconds of the answers by kind, and errors."""

    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)

    def percentile(self, kind: str, share: int) -> float:
        """The 50th or 95th percentile in milliseconds; NaN without an answer."""
        times = self.times[kind]
        if len(times) < 2:
            return times[0] if times else float("nan")
        return statistics.quantiles(times, n=20, method="inclusive")[share // 5 - 1]


async def visit(client: httpx.AsyncClient, instance: Instance, slug: str, dice: random.Random, seen: Measured) -> None:
    """Request a page or an operation, forever."""
    while True:
        await asyncio.sleep(dice.uniform(0, 2 * PAUSE))
        kind = "page" if dice.random() < 0.6 else "api"
        path = dice.choice(PAGES if kind == "page" else OPERATIONS).format(slug)
        headers = {"Cookie": instance.cookie} if kind == "page" else {"Authorization": f"Bearer {instance.token}"}
        began = time.perf_counter()
        try:
            answer = await client.get(instance.url + path, headers=headers)
        except httpx.HTTPError as error:
            seen.errors.append(f"{path}: {type(error).__name__}")
            continue
        seen.times[kind].append(1000 * (time.perf_counter() - began))
        if answer.status_code != 200:
            seen.errors.append(f"{path}: status {answer.status_code}")


async def hold_socket(instance: Instance, slug: str, dice: random.Random, seen: Measured) -> None:
    """Connect, read for some seconds, connect again, forever."""
    address = f"{instance.url.replace('http', 'ws', 1)}/ws/runs/{slug}/"
    while True:
        began, until = time.perf_counter(), time.monotonic() + dice.uniform(2, 8)
        try:
            async with connect(
                address,
                origin=Origin(instance.url),
                additional_headers={"Cookie": instance.cookie},
                compression=None,
                max_size=None,
                close_timeout=1,
            ) as socket:
                await socket.recv()
                seen.times["socket"].append(1000 * (time.perf_counter() - began))
                while (left := until - time.monotonic()) > 0:
                    try:
                        async with asyncio.timeout(left):
                            await socket.recv()
                    except TimeoutError:
                        break
        except (OSError, WebSocketException, TimeoutError) as error:
            seen.errors.append(f"websocket: {type(error).__name__}")
            await asyncio.sleep(PAUSE)


async def phase(instance: Instance, slug: str, visitors: int, seconds: float, seed: int) -> Measured:
    """All visitors for `seconds`."""
    seen = Measured()
    limits = httpx.Limits(max_connections=visitors, max_keepalive_connections=visitors)
    async with httpx.AsyncClient(timeout=30, limits=limits) as client:
        tasks = [
            asyncio.create_task(
                hold_socket(instance, slug, random.Random(seed + number), seen)
                if number % 5 == 4
                else visit(client, instance, slug, random.Random(seed + number), seen)
            )
            for number in range(visitors)
        ]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return seen


def await_run(instance: Instance, slug: str, state: str, iterations: int = 0) -> None:
    """Wait until the run has this state and so many iterations. Raises TimeoutError."""
    deadline = time.monotonic() + WAIT
    while True:
        run = instance.request("GET", f"/runs/{slug}")
        if run["state"] == state and run["iteration"] >= iterations:
            return
        if time.monotonic() > deadline or run["state"] == "failed":
            raise TimeoutError(f"the run is {run['state']} at iteration {run['iteration']}: {run['failure']}")
        time.sleep(0.2)


def measure(instance: Instance, visitors: int, seconds: float) -> dict[str, Measured]:
    """Measurements while the run trains and while it is paused, two phases each."""
    config = configs(ITERATIONS, seeds=1)[0].model_dump(mode="json")
    slug = instance.request("POST", "/runs", {"config": config})["slug"]
    await_run(instance, slug, "running", iterations=10)
    result = {name: Measured() for name in PHASES}
    for number, name in enumerate(PHASES):
        run = instance.request("GET", f"/runs/{slug}")
        if (run["state"] == "paused") != (name == "paused"):
            action = "pause" if name == "paused" else "resume"
            instance.request("POST", f"/runs/{slug}/control", {"action": action})
        await_run(instance, slug, "paused" if name == "paused" else "running", run["iteration"])
        seen = asyncio.run(phase(instance, slug, visitors, seconds, 1000 * number))
        for kind, times in seen.times.items():
            result[name].times[kind] += times
        result[name].errors += seen.errors
        print(f"{time.strftime('%H:%M:%S')}  {name}: {sum(map(len, seen.times.values()))} answers", flush=True)
    return result


def table(result: dict[str, Measured]) -> str:
    """p50 and p95 of both phases, their ratio, and the errors."""
    training, paused = result["training"], result["paused"]
    lines = [
        "| requests | training: p50 / p95 | none: p50 / p95 | ratio: p50 / p95 | errors: training / none |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for kind in KINDS:
        busy = [training.percentile(kind, share) for share in (50, 95)]
        calm = [paused.percentile(kind, share) for share in (50, 95)]
        ratios = [one / other for one, other in zip(busy, calm, strict=True)]
        counts = [len([e for e in seen.errors if kind_of(e) == kind]) for seen in (training, paused)]
        lines.append(
            f"| {kind} | {busy[0]:.0f} / {busy[1]:.0f} ms | {calm[0]:.0f} / {calm[1]:.0f} ms | "
            f"{ratios[0]:.2f} / {ratios[1]:.2f} | {counts[0]} / {counts[1]} |"
        )
    return "\n".join(lines)


def kind_of(error: str) -> str:
    """Kind of the request that an error names."""
    return "socket" if error.startswith("websocket") else "api" if error.startswith("/api") else "page"


def figures(result: dict[str, Measured]) -> dict[str, Any]:
    """The result for the JSON file."""
    return {
        name: {
            **{
                kind: {
                    "answers": len(seen.times[kind]),
                    "p50": seen.percentile(kind, 50),
                    "p95": seen.percentile(kind, 95),
                }
                for kind in KINDS
            },
            "errors": seen.errors,
        }
        for name, seen in result.items()
    }


def main() -> int:
    """Start the product, measure, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visitors", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each of the four phases")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="echoscope-visitors-"))
    home.chmod(0o755)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    instance = Instance(home / "data", slots=1)
    print(f"{machine.describe()}; {options.visitors} visitors, {options.seconds:.0f} s a phase", flush=True)
    try:
        instance.start()
        result = measure(instance, options.visitors, options.seconds)
    finally:
        instance.stop()
        if Path("/proc").exists():
            kill_leftovers(home)
        shutil.rmtree(home, ignore_errors=True)
    print(f"\n{table(result)}")
    for name, seen in result.items():
        for error in sorted(set(seen.errors)):
            print(f"{name}: {seen.errors.count(error)} × {error}")
    if options.json:
        facts = {"machine": machine.describe(), "visitors": options.visitors, "seconds": options.seconds}
        options.json.write_text(json.dumps({**facts, **figures(result), "load": os.getloadavg()}, indent=2) + "\n")
    return int(any(seen.errors for seen in result.values()))
