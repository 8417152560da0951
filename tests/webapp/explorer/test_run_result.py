"""Result of a run: suite, pairs of puzzles, wall, best checkpoint, runs without evaluation, and its card."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.webapp import journal_builder
from tests.webapp.api.api_clients import Callers, callers
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, assert_private, play, who
from trainer.journal import events
from webapp.explorer import run_result
from webapp.explorer.run_result import PuzzlePlay
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Evaluation, Run

__all__ = ["callers", "who"]

BEFORE = "+++--------+"
AFTER_ = "++-++++++--+"


def evaluation(iteration: int, success: float = 0.5, suite: str = "Sokoban", **fields: int) -> Evaluation:
    values = {"prompts": 4, "samples": 1} | fields
    return Evaluation(
        iteration=iteration,
        suite=suite,
        success=success,
        success_low=success - 0.2,
        success_high=success + 0.2,
        **values,
    )


def plays(*shares: float, environment: str = "Sokoban") -> dict[run_result.PuzzleKey, PuzzlePlay]:
    return {(n, environment, 100 + n): PuzzlePlay(share, f"p{n}") for n, share in enumerate(shares)}


def evaluated(iteration: int, solved: str) -> Iterator[events.Event]:
    """An evaluation of a puzzle per character; + is solved."""
    for number, sign in enumerate(solved):
        key = f"e{iteration}-{number}"
        started = journal_builder.group(iteration, number, [key], split="eval", seed=number)
        yield started.model_copy(update={"suite": "Sokoban"})
        yield journal_builder.turn(key, 0)
        yield journal_builder.end(key, 1, success=sign == "+")
    share = solved.count("+") / len(solved)
    yield events.Evaluation(
        iteration=iteration,
        suite="Sokoban",
        prompts=len(solved),
        success=share,
        success_low=max(0, share - 0.2),
        success_high=min(1, share + 0.2),
        mean_reward=1,
        mean_turns=1,
        mean_actions=1,
    )


def finish(run: Run, before: str = BEFORE, after: str = AFTER_) -> Run:
    """A finished run of two iterations with the model's files in its last checkpoint."""
    journal_builder.write(
        run.folder,
        journal_builder.started(),
        *evaluated(0, before),
        *journal_builder.iteration(1),
        *journal_builder.iteration(2),
        events.CheckpointSaved(iteration=2, path="checkpoints/000002", bytes=9),
        *evaluated(2, after),
        events.RunFinished(
            reason="completed",
            iteration=2,
            message="All 2 iterations are done.",
            summary={"tokens": 9000, "seconds": 65},
        ),
    )
    Run.objects.filter(pk=run.pk).update(state=Run.State.STARTING)
    run.refresh_from_db()
    JournalTailer(run).drain()
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED, iterations=2, iteration=2)
    run.refresh_from_db()
    folder = run.folder / "checkpoints/000002"
    (folder / "adapter").mkdir(parents=True)
    for name in (
        "config.json",
        "model.safetensors",
        "learner.pt",
        "state.json",
        ".state.json",
        "adapter/a.safetensors",
    ):
        (folder / name).write_bytes(name.encode())
    return run


# -- pure functions ---------------------------------------------------------------------------------------------------


def test_the_same_puzzles_are_paired() -> None:
    gain = run_result.gain(evaluation(0), evaluation(8), plays(0, 0, 1, 1), plays(1, 0, 1, 1))
    assert (gain.paired, gain.before, gain.after, gain.difference.value) == (True, 0.5, 0.75, 0.25)


@pytest.mark.parametrize(
    "after", [plays(1, 0, 1, 1, environment="Bandit"), plays(1, 0, 1), {}], ids=["other start", "one missing", "none"]
)
def test_other_puzzles_are_compared_as_independent(after: dict[run_result.PuzzleKey, PuzzlePlay]) -> None:
    gain = run_result.gain(evaluation(0, 0.5), evaluation(8, 0.8), plays(0, 0, 1, 1), after)
    assert (gain.paired, gain.before, gain.after) == (False, 0.5, 0.8)
    assert gain.difference.low == pytest.approx(0.3 - 0.2 * 2**0.5)


def test_several_samples_use_the_intervals_of_the_evaluations_and_their_correlation() -> None:
    first, last = evaluation(0, 0.5, samples=4), evaluation(8, 0.6, samples=4)
    apart = run_result.gain(first, last, {}, {}).difference
    paired = run_result.gain(first, last, plays(0, 0.25, 0.75, 1), plays(0.25, 0.25, 0.9, 1))
    assert paired.paired
    assert paired.difference.value == pytest.approx(apart.value)
    assert paired.difference.high - paired.difference.low < (apart.high - apart.low) / 2


def test_the_wall_sorts_puzzles_by_their_change() -> None:
    wall = run_result.wall(plays(0, 1, 1, 0, 0.5), plays(1, 0, 1, 0.25, 0.5))
    assert {section.change: [one.number for one in section.puzzles] for section in wall} == {
        "gained": [0],
        "lost": [1],
        "always": [2, 4],
        "never": [3],
    }
    assert [section.start for section in wall] == [0, 1, 2, 4]


def test_a_large_wall_is_cut_and_its_counts_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_result, "MAX_PUZZLES", 3)
    wall = run_result.wall(plays(0, 0, 1, 1, 1), plays(1, 1, 1, 1, 1))
    assert [(section.count, len(section.puzzles)) for section in wall] == [(2, 2), (0, 0), (3, 1), (0, 0)]


def test_the_best_stored_checkpoint_is_the_best_evaluated_one() -> None:
    success = {0: 0.3, 8: 0.6, 16: 0.5}
    assert run_result.best_checkpoint([8, 16], success) == 8
    assert run_result.best_checkpoint([16, 20], success) == 16
    assert run_result.best_checkpoint([18, 20], success) == 20
    assert run_result.best_checkpoint([], success) is None
    assert run_result.best_checkpoint([4], {0: 0.3}) == 4, "the success before training is of other weights"


def test_the_checkpoint_before_a_collapse_is_the_best_although_it_was_not_evaluated() -> None:
    success = {0: 0.44, 80: 0.21, 100: 0.15, 220: 0.01, 240: 0.004}
    assert run_result.best_checkpoint([90, 230, 240], success) == 90
    assert [run_result.evaluated_at(stored, success) for stored in (10, 90, 230, 240, 250)] == [80, 100, 240, 240, 240]


def test_the_ends_of_training_do_not_overlap() -> None:
    trend = run_result.trend([0.0, 1.0, 5.0])
    assert trend == run_result.Trend(0.0, 5.0, 1)
    assert run_result.trend([1.0]) is None
    assert trend is not None
    assert run_result.trend([float(n) for n in range(20)]) == replace(trend, before=2.0, after=17.0, iterations=5)


# -- the card ---------------------------------------------------------------------------------------------------------


def test_the_card_shows_difference_puzzles_checkpoint_and_cost(run: Run, who: Visitors) -> None:
    finish(run)
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert contains(page, '<span class="soft">33.3%</span>')
    assert contains(page, "<b>75.0%</b>")
    assert contains(page, "+41.7 points")
    assert contains(page, 'Newly solved <span class="soft number">6</span>')
    assert contains(page, 'Newly lost <span class="soft number">1</span>')
    assert page.count(': newly solved"') == 6
    slug = run.trajectories.get(key="e2-3").slug
    assert contains(page, f'<a href="/t/{slug}/prompt" title="Puzzle 4" aria-label="Puzzle 4: newly solved">')
    assert contains(page, '<dd class="number">iteration 2 <span class="soft">75.0%</span></dd>')
    assert contains(page, '<dd class="number">9,000</dd>')
    assert contains(page, '<dt>Training attempts</dt><dd class="number">8</dd>')
    assert "All 2 iterations are done." not in page.split('id="snapshot"')[0], "the header has it"


@pytest.mark.parametrize("state", ["queued", "running", "paused", "failed", "cancelled"])
def test_other_states_have_no_card(state: str, run: Run, who: Visitors) -> None:
    Run.objects.filter(pk=run.pk).update(state=state)
    assert 'id="result-title"' not in who.owner.get(f"/runs/{run.slug}/").content.decode()


def test_without_evaluation_the_card_shows_training_instead(run: Run, who: Visitors) -> None:
    play(run, finished=2)
    run.evaluations.all().delete()
    Run.objects.filter(pk=run.pk).update(state=Run.State.STOPPED)
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert contains(page, "This run was not evaluated: success in training, mean of the")
    assert "so far: stopped after iteration" in page


def test_a_single_evaluation_is_not_compared(run: Run, who: Visitors) -> None:
    play(run, finished=1)
    Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert contains(page, "There is one evaluation,")
    Run.objects.filter(pk=run.pk).update(iterations=0, config=run.config | {"kind": "evaluate"})
    page = who.owner.get(f"/runs/{run.slug}/").content.decode()
    assert contains(page, "This run only evaluated its policy.")
    assert 'value="prompts"' in page


def test_the_card_is_for_all_who_may_read_and_downloads_are_for_members(run: Run, who: Visitors) -> None:
    finish(run)
    address = f"/runs/{run.slug}/checkpoints/2/model.tar"
    assert_private(address, who)
    Run.objects.filter(pk=run.pk).update(visibility=Run.Visibility.LINK)
    page = who.anonymous.get(f"/runs/{run.slug}/").content.decode()
    assert 'id="result-title"' in page
    assert "Anyone with the link can open it." in page
    assert "model.tar" not in page
    assert 'name="vary"' not in page
    assert_private(address, who)
    viewer = who.viewer.get(f"/runs/{run.slug}/").content.decode()
    assert address in viewer
    assert 'name="vary"' not in viewer, "a viewer may not launch runs"


def test_the_query_count_does_not_depend_on_the_puzzles(
    run: Run, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    finish(run, BEFORE * 4, AFTER_ * 4)
    with django_assert_max_num_queries(27):
        who.owner.get(f"/runs/{run.slug}/")


def archive(answer: Iterable[bytes]) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(answer))) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def test_the_model_comes_without_the_state_to_resume_from(run: Run, who: Visitors, callers: Callers) -> None:
    finish(run)
    folder = f"{run.slug}-000002-model"
    wanted = {f"{folder}/{name}": name.encode() for name in ("config.json", "model.safetensors")}
    page = who.viewer.get(f"/runs/{run.slug}/checkpoints/2/model.tar")
    assert page["Content-Disposition"] == f'attachment; filename="{folder}.tar"'
    files = archive(page)
    card = {f"{folder}/{name}" for name in ("README.md", "success.svg", "training_config.yaml")}
    assert files.keys() == wanted.keys() | card
    assert {name: files[name] for name in wanted} == wanted
    assert archive(callers.viewer.get(f"/api/runs/{run.slug}/checkpoints/2/model.tar")) == files
    assert who.owner.get(f"/runs/{run.slug}/checkpoints/1/model.tar").status_code == 404
    assert callers.owner.get(f"/api/runs/{run.slug}/checkpoints/1/model.tar").status_code == 404


def test_a_clone_starts_with_the_chosen_change(run: Run, who: Visitors) -> None:
    finish(run)
    page = who.owner.get(f"/runs/new?clone={run.slug}&vary=filter").content.decode()
    assert contains(page, "2 changes from")
    assert contains(page, "Group filter std instead of none: what does StarPO-S contribute?")
    facts = page[page.index('id="launch-yaml"') :]
    assert "group_filter: std" in facts
    assert "group_filter_keep: 0.25" in facts
    same = who.owner.get(f"/runs/new?clone={run.slug}&vary=nothing").content.decode()
    assert contains(same, "No changes yet from")
