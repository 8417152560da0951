"""Every process of a running product is killed during a run, which continues and loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import sign_in
from tests.running_product import LiveStack, wait_for
from tests.system.run_observer import Watched, valid_turns
from trainer.journal.protocol import JOURNAL_FILE

ENDLESS = 100_000  # once everything has been killed, the run is stopped after two more iterations
SETTINGS = {
    "environment": {"name": "Sokoban"},
    "iterations": ENDLESS,
    "name": "Survivor",
    "policy": {"threads": 1},
    "rollout": {"groups": 2, "group_size": 2, "max_turns": 2, "max_response_tokens": 48},
    "optimizer": {"mini_batch_trajectories": 4},
    "algorithm": {"estimator": "grpo"},
    "evaluation": {"prompts": 2, "every": 3},
    "checkpoint": {"every": 1},
}
LAUNCH = """
import json
from trainer.config.run import RunConfig
from trainer.paths import POCKET_CHECKPOINT
from webapp.runs.launch.creation import do_create_run
from webapp.teams.models import Team, User
config = RunConfig.model_validate(json.loads({settings!r}))
config.policy.model = str(POCKET_CHECKPOINT)
print("slug", do_create_run(Team.objects.get(), User.objects.get(), config).slug)
"""
REQUEST = "from webapp.runs.models import Run; from webapp.runs.actions import do_request; run = Run.objects.get(); "
STOP = REQUEST + 'do_request(run, "stop")'
MORE = 'run.config["iterations"] = run.iteration + 2; run.save(update_fields=["config"]); '
CONTINUE = REQUEST + MORE + 'do_request(run, "resume")'
PROGRAMS = ("Worker", "Web", "Redis", "PostgreSQL")


@pytest.fixture
def watched(own_stack: LiveStack, browser: Browser) -> Iterator[Watched]:
    """A run in its second iteration or later, open in a browser."""
    output = own_stack.manage("shell", input=LAUNCH.format(settings=json.dumps(SETTINGS)))
    slug = next(line.split()[-1] for line in output.splitlines() if "slug" in line)
    context = browser.new_context(base_url=own_stack.url)
    page = context.new_page()
    sign_in(page, own_stack)
    page.goto(f"/runs/{slug}/")
    page.evaluate("window.loaded = 'once'")
    watched = Watched(own_stack, slug, page)
    wait_for(lambda: watched.progress()[1] >= 1, "the first iteration", watched.explain)
    yield watched
    context.close()


@pytest.mark.parametrize("programs", [("PostgreSQL",), pytest.param(PROGRAMS, marks=pytest.mark.nightly)])
def test_kills_lose_and_duplicate_no_turn_and_the_page_catches_up(watched: Watched, programs: tuple[str, ...]) -> None:
    faults: list[str] = []
    watched.page.on("pageerror", lambda error: faults.append(str(error)))

    kill_and_recover(watched, "the trainer", watched.kill_trainer, watched.trainer_pid)
    assert watched.progress()[0] == 2, "another attempt should have taken the run up from its checkpoint"
    for program in programs:
        stack = watched.stack
        kill_and_recover(watched, program, partial(stack.kill, program), partial(stack.pid, program))

    assert watched.page.evaluate("window.loaded") == "once", "it was loaded again instead of catching up"
    watched.stack.manage("shell", input=STOP)  # an ended run's page loads again, with its result
    wait_for(lambda: watched.state() == "stopped", "the run to stop", watched.explain)
    watched.stack.manage("shell", input=CONTINUE)
    wait_for(lambda: watched.state() == "finished", "the run to finish", watched.explain)
    expect(watched.page.locator(".state").first).to_have_attribute("data-state", "finished")
    assert not faults
    assert_tables_equal_the_journal(watched)


def kill_and_recover(watched: Watched, what: str, kill: Callable[[], int], pid: Callable[[], int]) -> None:
    """Kill it, then check that everything continues: its successor, the journal, the tables and the open page."""
    _, iteration, seq = watched.progress()
    lines = watched.line_count()
    gone = kill()
    wait_for(lambda: pid() != gone, f"a successor of {what}", watched.explain)
    wait_for(lambda: watched.line_count() > lines, f"the journal to go on after {what} was killed", watched.explain)

    def has_progressed() -> bool:
        now = watched.progress()
        return now[1] > iteration + 1 and now[2] > seq

    wait_for(has_progressed, f"the next iterations after {what} was killed", watched.explain)
    newest = watched.progress()[1]
    wait_for(lambda: watched.shown() > newest, f"the page to catch up after {what} was killed", watched.explain)
    expect(watched.page.locator("[data-connection]")).to_be_hidden()


def assert_tables_equal_the_journal(watched: Watched) -> None:
    path = watched.folder / JOURNAL_FILE
    stored = watched.query(
        "SELECT turn.seq FROM trajectories_turn AS turn JOIN trajectories_trajectory AS t ON t.id = turn.trajectory_id "
        "JOIN runs_run AS run ON run.id = t.run_id WHERE run.slug = %s ORDER BY turn.seq",
        watched.slug,
    )
    assert [row[0] for row in stored] == valid_turns(path)
    assert len(stored) > 50

    frames = watched.query(
        "SELECT first_seq, last_seq FROM runs_eventbatch AS batch JOIN runs_run AS run ON run.id = batch.run_id "
        "WHERE run.slug = %s ORDER BY first_seq",
        watched.slug,
    )
    last = watched.line_count()
    assert [row[0] for row in frames] == [1, *(row[1] + 1 for row in frames[:-1])]
    assert frames[-1][1] == last == watched.progress()[2]
