"""Answers to questions about a recorded attempt: branches, the value of its turns, the influence of its thoughts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envs import registry
from trainer.branching import sample_statistics
from trainer.branching.changed_response import ChangeError
from trainer.branching.false_claims import FalseThought, make_claims_false
from trainer.branching.player import BranchPlayer, Play
from trainer.branching.starting_points import StartingPoints, branch_name
from trainer.branching.unsampled import with_scores
from trainer.config.run import JournalConfig
from trainer.engines.sampler import SampledResponse
from trainer.journal.branches import (
    Advanced,
    Answer,
    Branches,
    Change,
    CompareThoughts,
    FindValue,
    Influences,
    Partial,
    Played,
    PlayOn,
    Question,
    Restored,
    Thought,
    Values,
)
from trainer.journal.events import Event, TrajectoryFinished, TrajectoryTokens, Turn
from trainer.learner.token_recorder import TokenRecorder
from trainer.loops.recorded_attempts import turns_beside
from trainer.rollout.runner import EnvironmentsFailedError, GroupPlan, Interrupted, ListenerFactory
from trainer.rollout.token_stream import TokenStreamListener
from trainer.rollout.trajectory import Trajectory
from trainer.seeds import Purpose, derive, number_of

_LIVE_INTERVAL = 0.01  # seconds between the partial responses of a branch, times the number of branches
_MIN_INTERVAL = 0.08


@dataclass(frozen=True)
class Asker:
    """Who asked: receives the answers, and may lose interest.

    Attributes:
        answer: receives answers as they occur.
        stop: polled while playing; True cancels the question.
        live: whether partial responses are of interest.
    """

    answer: Callable[[Answer], None]
    stop: Callable[[], bool] = lambda: False
    live: bool = False


def answer(question: Question, player: BranchPlayer, asker: Asker) -> Branches | Values | Influences:
    """Answer a question about an attempt. Returns the last answer.

    Raises:
        Interrupted: the asker stopped.
        Exception: there is no answer; the message is for users unless it is a defect.
    """
    points = player.starting_points(Path(question.folder or player.weights.folder), question.trajectory)
    match question:
        case PlayOn():
            return _branch(question, points, player, asker)
        case FindValue():
            return _value(question, points, player, asker)
        case CompareThoughts():
            return _thoughts(question, points, player, asker)


def _branch(question: PlayOn, points: StartingPoints, player: BranchPlayer, asker: Asker) -> Branches:
    turn, samples, temperature = question.turn, question.samples, _temperature(question, points)
    luck = points.seeds(Purpose.DYNAMICS, turn, range(samples)) if question.luck == "fresh" else []
    position = with_scores(points.position(turn, question.change, luck), points, player.policy, temperature)
    plan = points.plan(position, samples)
    numbers = {name: number for number, name in enumerate(plan.members)}
    asker.answer(_restored(question.id, points, turn, position.beginning))

    def emit(*events: Event) -> None:
        for event in events:
            if isinstance(event, Turn | TrajectoryFinished | TrajectoryTokens):
                event.time = time.time()
                asker.answer(Played(id=question.id, branch=numbers[event.trajectory], event=event))

    play = Play(
        emit=emit,
        stop=asker.stop,
        progress=_FinishedBranches(question.id, samples, asker),
        listener=_listener(question.id, numbers, points, asker),
    )
    trajectories = _played(player, points, [plan], temperature, play)
    emit(*TokenRecorder(JournalConfig(tokens="all"), points.chat).evaluated(trajectories))
    complete = [trajectory for trajectory in trajectories if not trajectory.failed]
    solved = sample_statistics.share_of([trajectory.success for trajectory in complete])
    return Branches(id=question.id, solved=solved, failed=samples - len(complete))


def _value(question: FindValue, points: StartingPoints, player: BranchPlayer, asker: Asker) -> Values:
    turns, samples = range(len(points.attempt.turns)), question.samples
    outcomes = []
    asker.answer(_restored(question.id, points, 0))
    for turn in turns:
        luck = points.seeds(Purpose.DYNAMICS, turn, range(samples))
        plan = points.plan(points.position(turn, luck=luck), samples)
        play = Play(stop=asker.stop, listener=_listener(question.id, {}, points, asker))
        trajectories = _played(player, points, [plan], _temperature(question, points), play)
        outcomes.append([trajectory.success for trajectory in trajectories if not trajectory.failed])
        asker.answer(Advanced(id=question.id, done=(turn + 1) * samples, total=len(turns) * samples))
    finished = points.attempt.finished
    values = sample_statistics.values_of(outcomes, finished.success if finished else None)
    return values.model_copy(update={"id": question.id})


def _thoughts(question: CompareThoughts, points: StartingPoints, player: BranchPlayer, asker: Asker) -> Influences:
    attempt, samples = points.attempt, question.samples
    others = list(turns_beside(Path(question.folder or player.weights.folder), attempt))
    asker.answer(_restored(question.id, points, 0))
    influences = []
    for turn in range(len(attempt.turns)):
        if not points.has_answer(turn):
            continue
        beginnings, texts, claims = _beginnings(points, turn, others)
        plans = [
            replace(
                points.plan(replace(points.position(turn), beginning=beginning), samples, group=group),
                members=tuple(f"{branch_name(attempt.trajectory, turn, n)}-{thought}" for n in range(samples)),
            )
            for group, (thought, beginning) in enumerate(beginnings.items())
        ]
        play = Play(stop=asker.stop, listener=_listener(question.id, {}, points, asker), turns=1)
        trajectories = _played(player, points, plans, _temperature(question, points), play)
        chosen: dict[Thought, list[str]] = {
            thought: [actions_of(t.turns[turn]) for t in trajectories if t.group == group and len(t.turns) > turn]
            for group, thought in enumerate(beginnings)
        }
        influences.append(sample_statistics.influence_of(turn, chosen, texts, claims))
        asker.answer(Advanced(id=question.id, done=turn + 1, total=len(attempt.turns)))
    return sample_statistics.influences_of(influences).model_copy(update={"id": question.id})


def _beginnings(
    points: StartingPoints, turn: int, others: Sequence[Turn]
) -> tuple[dict[Thought, SampledResponse], dict[Thought, str], tuple[int, int]]:
    """Return the beginnings of the response with each thought, the texts of those thoughts, and the claims."""
    recorded = points.attempt.turns[turn]
    beginnings: dict[Thought, SampledResponse] = {"own": points.own_beginning(turn)}
    texts: dict[Thought, str] = {"none": ""}
    if other := other_thought(recorded, others, points.attempt.config.seed):
        texts["other"] = other
    false = _false_thought(points, recorded)
    if false is not None and false.text != recorded.thought:
        texts["false"] = false.text
    for thought, text in list(texts.items()):
        if (beginning := _beginning_with(points, turn, text)) is None:
            del texts[thought]
        else:
            beginnings[thought] = beginning
    return beginnings, texts, (false.claims, false.kept) if false else (0, 0)


def _beginning_with(points: StartingPoints, turn: int, thought: str) -> SampledResponse | None:
    """Return the beginning of a response with another thought; None if it cannot be written or is too long."""
    if not points.bound.think:
        raise ChangeError("this policy writes no thoughts (rollout.think): there is nothing to compare")
    try:
        beginning = points.position(turn, Change(thought=thought)).beginning
    except ChangeError:
        return None
    fits = beginning is not None and len(beginning.ids) <= points.config.rollout.max_response_tokens
    return beginning if fits else None


def _false_thought(points: StartingPoints, recorded: Turn) -> FalseThought | None:
    name, board = points.config.environment.name, recorded.board
    return make_claims_false(recorded.thought, lambda thought: registry.read_claims(name, thought, board))


def other_thought(recorded: Turn, others: Sequence[Turn], seed: int) -> str | None:
    """Return the thought of another attempt in another state, the same one for the same run; None without any."""
    candidates = [
        turn for turn in others if turn.thought and turn.thought != recorded.thought and turn.board != recorded.board
    ]
    if not candidates:
        return None
    number = derive(seed, Purpose.BRANCH, number_of(recorded.trajectory), recorded.turn)
    return candidates[number % len(candidates)].thought


def actions_of(turn: Turn) -> str:
    """Return the actions of a turn as text: names, or the policy's words if there are none."""
    return " || ".join(action.name or action.text for action in turn.actions)


def _played(
    player: BranchPlayer, points: StartingPoints, plans: Sequence[GroupPlan], temperature: float, play: Play
) -> list[Trajectory]:
    try:
        return player.play(points, plans, temperature, play)
    except EnvironmentsFailedError as error:
        return error.trajectories


def _temperature(question: Question, points: StartingPoints) -> float:
    return points.attempt.temperature if question.temperature is None else question.temperature


def _restored(identity: str, points: StartingPoints, turn: int, beginning: SampledResponse | None = None) -> Restored:
    text = points.bound.decode(beginning.ids) if beginning else ""
    return Restored(id=identity, turn=turn, tokens=points.tokens, beginning=text)


def _listener(identity: str, numbers: dict[str, int], points: StartingPoints, asker: Asker) -> ListenerFactory:
    """Return the factory of listeners that send the partial responses of these branches, and notice a stop."""
    live = _LiveResponses(identity, numbers, asker)
    return lambda names, turn_of: TokenStreamListener(live, points.bound, names, turn_of)


class _FinishedBranches:
    """Answers with the number of finished branches when it changes."""

    def __init__(self, identity: str, total: int, asker: Asker) -> None:
        self.identity, self.total, self.asker = identity, total, asker
        self._done = 0

    def __call__(self, done: int) -> None:
        if done != self._done:
            self._done = done
            self.asker.answer(Advanced(id=self.identity, done=done, total=self.total))


class _LiveResponses:
    """The partial responses of branches, as answers. See `trainer.rollout.token_stream.PartialResponses`."""

    def __init__(self, identity: str, numbers: dict[str, int], asker: Asker) -> None:
        self.identity, self.numbers, self.asker = identity, numbers, asker
        self.watched = frozenset(numbers)
        self._next = 0.0

    def due(self) -> bool:
        """True if the next partial responses may be sent. Raises Interrupted if the asker stopped."""
        if self.asker.stop():
            raise Interrupted
        if not (self.asker.live and self.watched) or time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + max(_MIN_INTERVAL, _LIVE_INTERVAL * len(self.watched))
        return True

    def send(self, trajectory: str, turn: int, text: str) -> None:
        """Send the response of a turn so far."""
        branch = self.numbers[trajectory]
        self.asker.answer(Partial(id=self.identity, branch=branch, turn=turn, text=text))
