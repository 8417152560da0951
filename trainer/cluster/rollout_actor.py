"""Rollout actor: one engine with its environments, in a separate process."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue

import torch

from trainer.cluster.actor_description import ActorDescription
from trainer.cluster.transfer import PackedWeights, PolicyFiles
from trainer.config.run import RunConfig
from trainer.engines.sampler_factory import in_chunks, make_sampler
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.journal.events import Event
from trainer.memory import preflight
from trainer.policy import lora_adapters
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import pick_device
from trainer.rollout.runner import EnvironmentsFailedError, Interrupted, RolloutRequest, RolloutRunner
from trainer.rollout.token_stream import TokenStreamListener
from trainer.rollout.trajectory import Trajectory

_COALESCE_SECONDS = 0.1
"""Time that a report waits for further events after the first one."""
_LINE_INTERVAL = 0.08
"""Seconds between two partial responses of an actor."""


@dataclass
class PlayReport:
    """Events in an actor since its last report, in order.

    Attributes:
        events: events for the journal.
        done, tokens: finished trajectories and sampled tokens of the request so far.
        partial: the newest partial response of a watched trajectory: its id, turn and text.
        notices: messages for the user.
        seconds: duration of the whole request, once it is over.
        work: seconds of each kind of work in it, once it is over.
        trajectories: trajectories of the whole request, once it is played.
        failure: the error that ended the request instead.
    """

    events: list[Event] = field(default_factory=list)
    done: int = 0
    tokens: int = 0
    partial: tuple[str, int, str] | None = None
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0
    work: dict[str, float] = field(default_factory=dict)
    trajectories: list[Trajectory] | None = None
    failure: Exception | None = None

    @property
    def final(self) -> bool:
        """True if the request is over."""
        return self.trajectories is not None or self.failure is not None


class RolloutActor:
    """Plays requests one after another in a thread, while other threads answer the driver.

    Args:
        config: the run's settings.
        rows: trajectories that it samples at once, unless only another number fits its GPU; None: all of them.
    """

    def __init__(self, config: RunConfig, rows: int | None = None) -> None:
        self.config, self.rows = config, rows
        self.stream = ActorTokenStream(self._put_partial)
        self._messages: SimpleQueue[PlayReport] = SimpleQueue()
        self._player: threading.Thread | None = None
        self._stopped, self._counts = False, (0, 0)
        self._work: dict[str, float] = {}
        self._lock = threading.Lock()  # guards the next two, and the model's weights
        self._playing = False
        self._pending: PackedWeights | None = None

    def prepare(self, files: PolicyFiles, weights: PackedWeights | None) -> ActorDescription:
        """Load the policy and start the engine and the environments' runner.

        Args:
            files: the initial policy of the run, without adapters.
            weights: newer weights; None: there are none yet.
        Raises:
            ModelError: the policy or the engine cannot be loaded here.
            OutOfMemoryError: the policy or the engine does not fit this actor's GPU.
        """
        config = self.config
        if config.policy.threads:
            torch.set_num_threads(config.policy.threads)
        device = pick_device(config.policy.device)
        plan = preflight.check_gpu(config, files.shape, device, "play")
        if plan.warning:
            self._notify(plan.warning)
        policy = files.load(config.policy)
        if config.lora.rank and config.kind != "evaluate":
            lora_adapters.attach_all(policy.model, None, config.lora, config.seed)
        self.model = policy.model
        self.chat = ChatFormat.of_rollout(policy.tokenizer, config.rollout, policy.end_ids)
        self.sampler = make_sampler(config, policy, self.chat.eos_id, end_ids=self.chat.end_ids)
        if isinstance(self.sampler, TransformersSampler) and config.rollout.max_staleness:
            self.sampler.threads = 0  # several threads never pause between rounds at the same time
            self.sampler.between_rounds = self._apply_weights
        self.runner = RolloutRunner(
            config=config,
            chat=self.chat,
            sampler=in_chunks(self.sampler, self.rows if plan.rows is None else plan.rows, self._notify),
            context=policy.context,
            emit=self._emit,
            stop=lambda: self._stopped,
            progress=self._progress,
            on_work=self._count_work,
        )
        if weights is not None:
            self.load_weights(weights)
        return ActorDescription.of_this_process(policy.model.device)

    def load_weights(self, weights: PackedWeights) -> int:
        """Sample with these weights from now on. Returns their version.

        While a request is being played, the transformers engine takes them between two rounds of responses and keeps
        the keys and values of earlier tokens, as PipelineRL (arXiv 2509.19128) does; vLLM takes them before its next
        request. Log-probabilities always refer to the distribution from which a token was sampled.
        """
        with self._lock:
            self._pending = weights
            if not self._playing:
                self._load_pending()
        return weights.version

    def _apply_weights(self) -> None:
        """Take the newest weights; called in the playing thread, when no response is being sampled."""
        with self._lock:
            self._load_pending()

    def _load_pending(self) -> None:
        if self._pending is None:
            return
        self._pending.unpack().load_into(self.model)
        self.sampler.weights_updated(self._pending.version)
        self._pending = None

    def begin(self, request: RolloutRequest, wait: float) -> PlayReport:
        """Begin to play a request, after the previous one is over. Returns its first report, like `report`."""
        if self._player is not None:
            self._player.join()
        self._stopped, self._counts = False, (0, 0)
        with self._lock:
            self._load_pending()
            self._playing = True
        self._player = threading.Thread(target=self._play, args=(request,), name="play", daemon=True)
        self._player.start()
        return self.report(wait)

    def report(self, wait: float) -> PlayReport:
        """Return the events since the last report, after waiting at most this many seconds for any.

        Events that follow shortly after are part of the same report, so that a driver of many actors gets few reports.
        """
        combined, deadline = PlayReport(), time.monotonic() + wait
        try:
            while not combined.final:
                _extend(combined, self._messages.get(timeout=max(0.0, deadline - time.monotonic())))
                deadline = min(deadline, time.monotonic() + _COALESCE_SECONDS)
        except Empty:
            pass
        combined.done, combined.tokens = self._counts
        return combined

    def stop(self) -> None:
        """Interrupt the request between turns."""
        self._stopped = True

    def watch(self, trajectories: Sequence[str]) -> None:
        """Report partial responses of these trajectories from now on."""
        self.stream.watched = frozenset(trajectories)

    def close(self) -> None:
        """End the processes and threads of the engine and the environments."""
        self._stopped = True
        if self._player is not None:
            self._player.join()
        self.runner.close()

    # -- in the playing thread ---------------------------------------------------------------------------------------

    def _play(self, request: RolloutRequest) -> None:
        end, began = PlayReport(), time.monotonic()
        try:
            end.trajectories = self.runner.play(request, partial(TokenStreamListener, self.stream, self.chat))
        except EnvironmentsFailedError as error:  # only the driver can decide whether all actors failed
            end.trajectories = error.trajectories
        except Interrupted as error:
            end.failure = error
        except Exception as error:  # noqa: BLE001 raised again by the driver
            end.failure = _portable(error)
        with self._lock:
            self._playing = False
            self._load_pending()
        end.seconds, end.work = time.monotonic() - began, self._work
        self._messages.put(end)

    def _emit(self, *events: Event) -> None:
        self._messages.put(PlayReport(events=list(events)))

    def _count_work(self, kind: str, began: float, ended: float) -> None:
        self._work[kind] = self._work.get(kind, 0.0) + ended - began

    def _progress(self, done: int, tokens: int) -> None:
        self._counts = (done, tokens)

    def _put_partial(self, trajectory: str, turn: int, text: str) -> None:
        self._messages.put(PlayReport(partial=(trajectory, turn, text)))

    def _notify(self, message: str) -> None:
        self._messages.put(PlayReport(notices=[message]))


class ActorTokenStream:
    """Sends partial responses of watched trajectories, at most a few a second; for `TokenStreamListener`."""

    def __init__(self, send: Callable[[str, int, str], None]) -> None:
        self.watched: frozenset[str] = frozenset()
        self._send, self._next = send, 0.0

    def due(self) -> bool:
        """True if any trajectory is watched and the next line may be sent."""
        return bool(self.watched) and time.monotonic() >= self._next

    def send(self, trajectory: str, turn: int, text: str) -> None:
        """Send a line."""
        self._next = time.monotonic() + _LINE_INTERVAL
        self._send(trajectory, turn, text)


def _extend(report: PlayReport, other: PlayReport) -> None:
    report.events += other.events
    report.notices += other.notices
    report.partial = other.partial or report.partial
    report.trajectories, report.failure, report.seconds = other.trajectories, other.failure, other.seconds
    report.work = other.work


def _portable(error: Exception) -> Exception:
    """Return the error, or one with its text if it cannot be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 whatever its pickling raises
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
