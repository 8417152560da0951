"""One initial state through training: a trajectory for each iteration, and their walks in step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from webapp.core import formatting
from webapp.core.streaming import release_connection
from webapp.explorer.related import Iteration, RelatedTrajectory, by_checkpoint
from webapp.trajectories.models import Trajectory, Turn
from webapp.trajectories.render.drawing_queue import DRAWINGS
from webapp.trajectories.render.film import Film, FilmFrame
from webapp.trajectories.render.preview import drawing_key
from webapp.trajectories.render.walk import BoardStep, walk

MAX_FRAMES = 12
"""Maximum number of iterations at once: evenly spaced, with the first, the last and the first success."""
MAX_ALL = 100
"""Maximum number of iterations on request; more would be a page of megabytes."""
MAX_ANSWER = 160
"""Maximum number of characters of a last answer."""


@dataclass(frozen=True)
class ChosenFrame:
    """The trajectory that represents an iteration."""

    iteration: Iteration
    played: RelatedTrajectory
    first_success: bool


@dataclass(frozen=True)
class Chosen:
    """The chosen frames, the number of iterations, and the iteration of the first success among all of them.

    Attributes:
        noun: what the run's pages call an initial state (Run.task_noun).
        until_success: the film ends with the first success.
        by_checkpoints: checkpoints played the initial state again, as branches, instead of evaluations.
    """

    frames: Sequence[ChosenFrame]
    total: int
    first_success: int | None
    noun: str
    until_success: bool
    by_checkpoints: bool = False

    @property
    def title(self) -> str:
        return "It got it" if self.until_success else "How it learned"

    @property
    def query(self) -> str:
        """Query that selects this film in the addresses of pictures and animations."""
        return "?until=success" if self.until_success else ""

    @property
    def states(self) -> tuple[object, ...]:
        """Values on which a drawing of the frames depends, for its ETag."""
        played = [frame.played.trajectory for frame in self.frames]
        return (
            self.until_success,
            self.by_checkpoints,
            self.total,
            *((one.pk, one.last_seq, one.status) for one in played),
        )

    @property
    def facts(self) -> str:
        """A line such as “Same puzzle at 7 iterations · first solved at iteration 48”."""
        where = f"at {formatting.plural(self.total, 'iteration')}"
        if self.by_checkpoints:
            where = f"played by {formatting.plural(self.total, 'checkpoint')}"
        if self.first_success is None:
            return f"Same {self.noun} {where} · not solved yet"
        return f"Same {self.noun} {where} · first solved at iteration {formatting.whole(self.first_success)}"


def choose_frames(solved: Sequence[bool], limit: int = MAX_FRAMES) -> list[int]:
    """Return indices of at most `limit` (at least 3) items: evenly spread, with the first, last and first solved."""
    count = len(solved)
    if count <= limit:
        return list(range(count))
    even = {(number * (count - 1) + (limit - 1) // 2) // (limit - 1) for number in range(limit)}
    first = next((index for index, success in enumerate(solved) if success), None)
    if first is not None and first not in even:
        even.remove(min(even - {0, count - 1}, key=lambda index: abs(index - first)))
        even.add(first)
    return sorted(even)


def choose_film(current: Trajectory, iterations: Sequence[Iteration], limit: int = MAX_FRAMES) -> Chosen:
    """The frames of a film: of these iterations, or if there is one only, of the checkpoints that played it again."""
    if len(iterations) > 1:
        return choose(iterations, current, limit)
    checkpoints = by_checkpoint(current)
    if len(checkpoints) < 2:
        return choose(iterations, current, limit)
    return replace(choose(checkpoints, current, limit), by_checkpoints=True)


def choose(
    iterations: Sequence[Iteration], current: Trajectory, limit: int = MAX_FRAMES, *, until_success: bool = False
) -> Chosen:
    """The frames of the iterations: of each the ended member with the number of `current`, else the first one.

    Iterations at which nothing has ended are left out. Select the run with `current`.

    Args:
        until_success: end with the iteration of `current`, the first success from its initial state.
    """
    if until_success:
        iterations = [each for each in iterations if each.iteration <= current.iteration]
    ended = [(each, played) for each in iterations if (played := _representative(each, current)) is not None]
    solved = [played.trajectory.status == Trajectory.Status.SUCCESS for _, played in ended]
    first = solved.index(True) if True in solved else None
    frames = [ChosenFrame(*ended[index], first_success=index == first) for index in choose_frames(solved, limit)]
    return Chosen(
        frames,
        len(ended),
        None if first is None else ended[first][0].iteration,
        current.run.task_noun,
        until_success,
    )


def _representative(iteration: Iteration, current: Trajectory) -> RelatedTrajectory | None:
    ended = [played for played in iteration.members if played.trajectory.status in Trajectory.ENDED]
    return next((played for played in ended if played.trajectory.member == current.member), ended[0] if ended else None)


def make_film(chosen: Chosen, environment: str) -> Film:
    """Return the film of the chosen frames, of which there must be at least one, in two queries."""
    pks = [frame.played.trajectory.pk for frame in chosen.frames]
    boards = dict(Trajectory.with_branches.filter(pk__in=pks).values_list("pk", "group__board"))
    turns = Turn.objects.filter(trajectory__in=pks).order_by("trajectory", "number")
    actions: dict[int, list[dict[str, Any]]] = {pk: [] for pk in pks}
    answers: dict[int, str] = {}
    for pk, records, answer in turns.values_list("trajectory_id", "event__actions", "event__answer"):
        actions[pk] += records or []
        answers[pk] = str(answer or "")
    frames = []
    for frame in chosen.frames:
        trajectory = frame.played.trajectory
        frames.append(
            FilmFrame(
                iteration=frame.iteration.iteration,
                outcome=frame.played.outcome.word,
                success=trajectory.success,
                reward=trajectory.reward,
                answer=formatting.beginning(answers.get(trajectory.pk, ""), MAX_ANSWER),
                first_success=frame.first_success,
                steps=walk(boards[trajectory.pk], actions[trajectory.pk]),
            )
        )
    return Film(title=f"{chosen.title}: {environment}", facts=chosen.facts, frames=frames)


def film_key(chosen: Chosen, kind: str) -> str:
    """Return the ETag of a drawing of at least one chosen frame, without quotation marks."""
    return drawing_key(chosen.frames[0].played.trajectory, "film", kind, chosen.states)


def drawn_film(chosen: Chosen, environment: str, kind: str, draw: Callable[[Film], bytes]) -> bytes:
    """Draw at least one chosen frame, with film_key() as key. Raises DrawingBusy.

    Releases the database connection.
    """

    def load() -> Callable[[], bytes]:
        made = make_film(chosen, environment)
        release_connection()
        return lambda: draw(made)

    return DRAWINGS.get(film_key(chosen, kind), load)


def film_data(film: Film) -> list[list[dict[str, Any]]]:
    """Return the steps of each frame, for static/js/player/filmstrip.js."""
    return [[_step_data(step) for step in frame.steps] for frame in film.frames]


def _step_data(step: BoardStep) -> dict[str, Any]:
    return {"board": step.board, "player": step.player, "push": step.push}
