"""Evaluation tab: suites with drawn intervals, and the generalisation matrix."""

from __future__ import annotations

from io import BytesIO

from django.utils import timezone
from PIL import Image
from pytest_django import DjangoAssertNumQueries

from tests.webapp import journal_builder, recorded_journal
from tests.webapp.explorer.scripted_run import write_story
from tests.webapp.fragments import compact, contains
from tests.webapp.page_requests import Visitors, who
from trainer.config.run import RunConfig
from trainer.journal import events
from trainer.metrics.charts import share_place
from webapp.ingest.tailer import JournalTailer
from webapp.runs.models import Evaluation, GeneralizationMatrix, Run
from webapp.trajectories.render.wall import SIZE

__all__ = ["who"]


def large(number: int, success: float) -> events.Evaluation:
    return events.Evaluation(
        iteration=number,
        suite="large rooms",
        prompts=64,
        samples=4,
        success=success,
        success_low=success - 0.1,
        success_high=success + 0.1,
        pass_at={1: success, 4: success + 0.2},
        mean_reward=1,
        mean_turns=2,
        mean_actions=3,
    )


def matrix(success: float = 0.625) -> events.Generalization:
    def cell(policy: str, suite: str, share: float) -> events.GeneralizationCell:
        return events.GeneralizationCell(
            policy=policy,
            suite=suite,
            prompts=64,
            success=share,
            success_low=share - 0.05,
            success_high=share + 0.05,
            mean_reward=1.0,
        )

    return events.Generalization(
        policies=[
            events.EvaluatedPolicy(name="pocket", source="pocket"),
            events.EvaluatedPolicy(name="mover", source="var/runs/x", trained_on="Sokoban"),
        ],
        suites=["Sokoban", "Bandit"],
        cells=[cell("pocket", "Sokoban", 0.25), cell("pocket", "Bandit", 0.5), cell("mover", "Sokoban", success)],
    )


def test_every_suite_shows_interval_pass_at_k_and_a_trajectories_link(run: Run, who: Visitors) -> None:
    config = RunConfig.model_validate(run.config)
    journal_builder.write(
        run.folder,
        recorded_journal.started(config),
        large(0, 0.3),
        recorded_journal.evaluated(0, 0.35),
        large(4, 0.6),
        recorded_journal.evaluated(4, 0.6, final=True),
    )
    JournalTailer(run).drain()
    page = compact(who.viewer.get(f"/runs/{run.slug}/evaluation").content.decode())
    assert page.index('id="exam-1">Sokoban') < page.index('id="exam-2">large rooms'), "the run's own suite comes first"
    assert f'cx="{share_place(0.6)}"' in page
    assert 'aria-label="60.0%, between 54.0% and 66.0%"' in page
    assert contains(page, '<span class="soft">4:</span> 80.0%')
    assert contains(page, '<span class="soft">35.0%</span>'), "before and after are its headline"
    assert "A gain beyond chance: 95% interval +" in page
    assert page.index("+25.0 points") < page.index('id="exam-1"')
    assert "split=eval&amp;suite=large%20rooms&amp;iteration=4" in page


def test_an_adapter_s_suite_shows_the_variant_that_the_run_was_trained_in(run: Run, who: Visitors) -> None:
    run.environment = "Gymnasium"
    run.config["environment"] |= {"name": "Gymnasium", "settings": {"id": "Taxi-v4"}}
    run.save()
    evaluated = recorded_journal.evaluated(4, 0.6, final=True).model_copy(update={"suite": "Gymnasium"})
    start = recorded_journal.started(RunConfig())
    journal_builder.write(run.folder, start, evaluated, large(4, 0.6))
    JournalTailer(run).drain()
    page = compact(who.viewer.get(f"/runs/{run.slug}/evaluation").content.decode())
    assert 'id="exam-1">Gymnasium Taxi-v4<' in page
    assert 'id="exam-2">large rooms<' in page
    assert "split=eval&amp;suite=Gymnasium&amp;iteration=4" in page


def test_the_matrix_is_stored_and_shown_with_numbers_and_shades(run: Run, who: Visitors) -> None:
    config = RunConfig.model_validate(run.config)
    journal_builder.write(run.folder, recorded_journal.started(config), matrix(0.3), matrix())
    JournalTailer(run).drain()
    assert GeneralizationMatrix.objects.filter(run=run).count() == 1, "the newest one counts"
    page = who.viewer.get(f"/runs/{run.slug}/evaluation").content.decode()
    assert 'class="cell shade-6 home"' in page, "62.5% where it was trained"
    assert "62.5%" in page
    assert "57.5% to 67.5%" in page
    assert page.count("best: ") == 2, "one in each column"
    assert contains(page, '<td class="right soft">–</td>'), "what was not played is no zero"
    assert "Not evaluated yet" not in page


def test_the_tab_takes_few_queries(
    run: Run, who: Visitors, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    config = RunConfig.model_validate(run.config)
    journal_builder.write(run.folder, recorded_journal.started(config), matrix(), *(large(at, 0.5) for at in range(20)))
    JournalTailer(run).drain()
    with django_assert_max_num_queries(15):
        who.viewer.get(f"/runs/{run.slug}/evaluation")


def test_the_wall_through_training_is_an_animation_with_a_frame_for_each_evaluation(run: Run, who: Visitors) -> None:
    address = f"/runs/{run.slug}/evaluation.gif"
    assert who.viewer.get(address).status_code == 404
    write_story(run)
    for iteration in (0, 2, 4):
        shares = {"success": 0.5, "success_low": 0.3, "success_high": 0.7}
        Evaluation.objects.create(run=run, suite="fixed", iteration=iteration, prompts=3, time=timezone.now(), **shares)
    response = who.viewer.get(address)
    assert (response.status_code, response["Content-Type"]) == (200, "image/gif")
    wall = Image.open(BytesIO(response.content))
    assert (wall.size, getattr(wall, "n_frames", 0)) == (SIZE, 3)
    assert who.viewer.get(address, headers={"if-none-match": response["ETag"]}).status_code == 304
    assert who.viewer.get(f"/runs/{run.slug}/evaluation.bmp").status_code == 404
    assert address in who.viewer.get(f"/runs/{run.slug}/evaluation").content.decode()
