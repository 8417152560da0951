"""Summary beside the launch form: differences, estimates, warnings, YAML, API call, capacity."""

from __future__ import annotations

import html
import json
import re
import subprocess
from datetime import timedelta

import pytest
import yaml
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from tests.webapp.conftest import People
from tests.webapp.fragments import contains
from tests.webapp.page_requests import Visitors, assert_private, who
from tests.webapp.pages.runs.test_launch_views import fields_of
from trainer.config.algorithm import AlgorithmConfig
from trainer.config.files import load_preset, with_values
from trainer.config.run import LEARNING_BY_SAMPLING, START_SECONDS, RunConfig
from trainer.evaluation.suite_runner import is_due
from trainer.memory import estimate
from trainer.memory.advice import gigabytes
from trainer.policy.shapes import find_shape
from webapp.core import formatting
from webapp.runs.launch import estimates, summary
from webapp.runs.launch.creation import do_create_run
from webapp.runs.launch.recorded_work import _passes, recorded_work
from webapp.runs.models import Evaluation, MetricPoint, Run, Worker
from webapp.runs.queue.capacity import Capacity
from webapp.teams.actions import do_create_team
from webapp.teams.models import User

__all__ = ["who"]

DEMO = "sokoban-starpo_s-pocket"
SERVED = Capacity({"training": 1}, {"training": 1}, ("CPU, 2 cores",))


def checked(who: Visitors, **changes: str) -> str:
    fields = fields_of(who.owner.get(f"/runs/new?preset={DEMO}").content.decode())
    return html.unescape(who.owner.post("/runs/new/check", fields | changes).content.decode())


def shown(page: str, name: str) -> str:
    found = re.search(rf'<pre id="{name}"[^>]*>(.*?)</pre>', page, re.S)
    assert found is not None
    return html.unescape(found[1])


def exported(who: Visitors, **changes: str) -> str:
    """The exports of the form with these changes."""
    fields = fields_of(who.owner.get("/runs/new").content.decode())
    return html.unescape(who.owner.post("/runs/new/exports", fields | changes).content.decode())


def test_differences_from_the_preset_are_shown_while_typing(who: Visitors) -> None:
    page = checked(who, iterations="7", **{"rollout.temperature": "0.8"})
    assert contains(page, "2 changes from sokoban-starpo_s-pocket")
    assert contains(page, "<del>80</del> → <ins>7</ins>")
    assert contains(page, "<code>rollout.temperature</code>")
    assert f"No changes from {DEMO}" in checked(who)


def test_a_clone_shows_its_differences_from_the_run(run: Run, who: Visitors) -> None:
    fields = fields_of(who.owner.get(f"/runs/new?clone={run.slug}").content.decode())
    page = html.unescape(who.owner.post("/runs/new/check", fields | {"seed": "5"}).content.decode())
    assert contains(page, "1 change from Trial")
    assert who.outsider.post("/runs/new/check", fields).status_code == 404


def test_the_yaml_beside_the_form_is_the_configuration(who: Visitors) -> None:
    page = exported(who, iterations="7")
    assert RunConfig.model_validate(yaml.safe_load(shown(page, "launch-yaml"))) == load_preset(DEMO).model_copy(
        update={"iterations": 7}
    )


def test_the_api_call_launches_the_same_run(who: Visitors) -> None:
    page = exported(who, name="It's mine", visibility="private", **{"environment.settings.size": "7"})
    command = shown(page, "launch-curl")
    assert "$ECHOSCOPE_TOKEN" in command
    assert "http://testserver/api/runs" in command
    body = command[command.index("-d ") + 3 :]
    output = subprocess.run(["sh", "-c", f"printf %s {body}"], capture_output=True, text=True, check=True).stdout
    assert json.loads(output) == {
        "preset": DEMO,
        "overrides": {"name": "It's mine", "environment.settings": {"size": 7}},
        "visibility": "private",
    }


def test_members_of_several_teams_choose_one_and_the_api_call_names_it(people: People, who: Visitors) -> None:
    other = do_create_team("Second", people.owner)
    page = exported(who, team=other.slug)
    assert json.loads(shown(page, "launch-curl").split("-d '")[1][:-1])["team"] == other.slug


def test_visibility_is_chosen_at_launch(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode())
    assert fields["visibility"] == "team"
    who.owner.post("/runs/new", fields | {"visibility": "private"})
    assert Run.objects.get().visibility == Run.Visibility.PRIVATE
    who.owner.post("/runs/new", fields | {"visibility": "everybody", "launch_key": ""})
    assert Run.objects.order_by("-pk")[0].visibility == Run.Visibility.TEAM


@pytest.mark.parametrize("way", ["text", "file"])
def test_yaml_fills_the_form_and_launches_nothing(way: str, who: Visitors) -> None:
    text = "iterations: 9\nrollout:\n  groups: 3\nenvironment:\n  name: FrozenLake\n"
    post = {"yaml": text} if way == "text" else {"file": SimpleUploadedFile("run.yaml", text.encode())}
    page = who.owner.post("/runs/new/yaml", {"preset": DEMO, **post}).content.decode()
    fields = fields_of(page)
    assert (fields["iterations"], fields["rollout.groups"], fields["environment.name"]) == ("9", "3", "FrozenLake")
    assert not Run.objects.exists()
    who.owner.post("/runs/new", fields)
    assert Run.objects.get().config == RunConfig.model_validate(yaml.safe_load(text)).model_dump(mode="json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iterations: many", "iterations: must be a whole number, not 'many'"),
        ("colour: blue", "no setting of"),
        ("- 1", "must hold a mapping"),
        ("a: [", "not valid YAML"),
        ("", "must hold a mapping"),
        ("environment:\n  name: Chess", "unknown environment 'Chess'"),
    ],
)
def test_invalid_yaml_is_reported_and_kept(text: str, message: str, who: Visitors) -> None:
    answer = who.owner.post("/runs/new/yaml", {"yaml": text})
    page = html.unescape(answer.content.decode())
    assert answer.status_code == 422
    assert message in page
    assert f"{text}</textarea>" in page


def test_only_members_fill_forms_from_yaml(run: Run, who: Visitors) -> None:
    assert who.viewer.post("/runs/new/yaml", {"yaml": "iterations: 9"}).status_code == 403
    assert who.anonymous.post("/runs/new/yaml", {}).headers["Location"].startswith("/login")
    assert who.outsider.post("/runs/new/yaml", {"yaml": "", "clone": run.slug}).status_code == 404
    assert_private(f"/runs/new?clone={run.slug}", who)


def test_the_form_can_be_validated_without_javascript(who: Visitors) -> None:
    fields = fields_of(who.owner.get("/runs/new").content.decode()) | {"do": "check", "iterations": "3"}
    page = who.owner.post("/runs/new", fields).content.decode()
    assert not Run.objects.exists()
    assert contains(page, "<ins>3</ins>")


def test_an_environment_page_links_to_a_prefilled_form(who: Visitors) -> None:
    assert (
        fields_of(who.owner.get("/runs/new?environment=FrozenLake").content.decode())["environment.name"]
        == "FrozenLake"
    )
    assert fields_of(who.owner.get("/runs/new?environment=Boxoban").content.decode())["environment.name"] == "Boxoban"
    assert who.owner.get("/runs/new?environment=Chess").status_code == 200


def test_the_queue_is_shown(run: Run, who: Visitors) -> None:
    assert "No worker is running" in checked(who)
    now = timezone.now()
    Worker.objects.create(
        name="a@b", device="CPU, 2 cores", queues=["training"], slots=1, started_at=now - timedelta(1), last_seen_at=now
    )
    assert "1 worker, 1 slot free; 1 run waiting before this one." in checked(who)


def test_a_run_comes_after_those_that_its_author_has_launched(run: Run, people: People, who: Visitors) -> None:
    """As the queue says once it is launched; somebody without runs in the queue would have the next turn."""
    now = timezone.now()
    Worker.objects.create(name="a@b", queues=["training"], slots=0, started_at=now - timedelta(1), last_seen_at=now)
    config = RunConfig.model_validate(run.config)
    for _ in range(2):
        do_create_run(run.team, people.owner, config)
    Run.objects.filter(pk=run.pk).update(author=people.owner)
    assert "3 runs waiting before this one." in checked(who)


def test_the_limit_of_tokens_includes_all_rounds_of_dynamic_sampling(people: People) -> None:
    config = load_preset(DEMO)
    sampled = config.model_copy(
        update={"algorithm": config.algorithm.model_copy(update={"dynamic_sampling_rounds": 3})}
    )
    usual, most = (estimates.figures(people.owner, each)[0] for each in (config, sampled))
    assert "dynamic sampling" not in usual.how
    total = 3 * config.iterations * config.rollout.trajectories
    total += estimates.evaluations(config) * config.evaluation.prompts
    assert f"(up to {total:,} with dynamic sampling)" in most.how


def test_recorded_runs_predict_tokens_and_time(people: People, run: Run, who: Visitors) -> None:
    config = load_preset(DEMO)
    unknown = {figure.title: figure for figure in estimates.figures(people.owner, config)}
    assert "From the demo on two idle CPU cores" in unknown["Time"].how
    assert unknown["Sampled tokens"].value.startswith("about ")
    assert estimates.figures(people.owner, load_preset("bandit-starpo_s-paper"), gpu=True)[1].value.startswith(
        "unknown"
    )
    Run.objects.filter(pk=run.pk).update(
        config=config.model_dump(mode="json"), device="CPU, 2 threads", iteration=10, parameters=900_000
    )
    played = 10 * config.rollout.trajectories
    MetricPoint.objects.create(
        run=run, name="reward/mean", iteration=10, value=1, tokens=100 * played, seconds=played / 20
    )
    known = {figure.title: figure for figure in estimates.figures(people.owner, config)}
    total = config.iterations * config.rollout.trajectories + estimates.evaluations(config) * config.evaluation.prompts
    assert known["Sampled tokens"].value == f"about {total * 100 / 1e6:,.1f} million"
    assert known["Time on CPU, 2 threads"].how.startswith("Median of 1 recorded run: 2,000 tokens/s")
    assert estimates.figures(people.outsider, config)[1].title == "Time", "runs of other teams tell nothing"


def test_passes_of_an_update_are_read_from_settings_of_earlier_versions_too() -> None:
    twice = AlgorithmConfig(updates_per_rollout=2)
    assert _passes(twice.model_dump() | {"value_clip": 0.5}) == twice.passes
    assert _passes({"estimator": "of a newer version"}) == _passes(None) == 1.0


def expected_seconds(user: User, config: RunConfig) -> float:
    time = estimates.expected_time(user, [config])
    assert time is not None
    assert not time.at_most
    return time.seconds


def test_another_environment_has_only_an_upper_bound(people: People, run: Run) -> None:
    """Its episodes have other lengths: the median of one environment says nothing about another one."""
    config = load_preset(DEMO)
    played = config.rollout.trajectories
    Run.objects.filter(pk=run.pk).update(
        config=config.model_dump(mode="json"), environment="Sokoban", device="CPU", parameters=900_000
    )
    MetricPoint.objects.create(run=run, name="reward/mean", iteration=1, value=1, tokens=100 * played, seconds=10)
    elsewhere = load_preset("bandit-starpo_s-pocket")
    tokens, time = estimates.figures(people.owner, elsewhere)[:2]
    reason = "Unknown in this environment: no run in Bandit is recorded yet."
    assert tokens.value.startswith("at most ")
    assert time.value.startswith("at most ")
    assert tokens.how.endswith(reason)
    assert time.how.endswith(reason)
    assert (expected := estimates.expected_time(people.owner, [config, elsewhere])) is not None
    assert expected.text.startswith("at most "), "one unknown part makes the sum a bound"
    larger = load_preset("bandit-starpo_s-smollm2")
    bound = estimates.figures(people.owner, larger)[1].value
    assert (expected := estimates.expected_time(people.owner, [larger])) is not None
    assert expected.text == bound, "the pace of another size is uncertain, and a bound includes that"
    longer = with_values(config, {"rollout.max_response_tokens": 2 * config.rollout.max_response_tokens})
    assert "runs with other limits used in Sokoban" in estimates.figures(people.owner, longer)[0].how


def test_an_evaluation_times_training_of_its_model_and_of_other_sizes(people: People, run: Run) -> None:
    small, large = "HuggingFaceTB/SmolLM2-135M-Instruct", "HuggingFaceTB/SmolLM2-1.7B-Instruct"
    training = RunConfig.model_validate(
        {
            "policy": {"model": small},
            "iterations": 10,
            "evaluation": {"prompts": 0},
            "rollout": {"max_turns": 1},
            "algorithm": {"estimator": "grpo"},
        }
    )
    evaluation = RunConfig.model_validate({"kind": "evaluate", "policy": {"model": small}})
    trajectories = 10 * training.rollout.trajectories
    Run.objects.filter(pk=run.pk).update(
        config=evaluation.model_dump(mode="json"),
        device="CPU, 1 thread",
        parameters=134_515_008,
    )
    played = {"prompts": 20, "samples": 2, "mean_turns": 1.5, "mean_response": 20.0}
    interval = {"success": 0.5, "success_low": 0.4, "success_high": 0.6}
    Evaluation.objects.create(run=run, iteration=0, suite="Sokoban", time=timezone.now(), **played, **interval)
    MetricPoint.objects.create(run=run, name="time/evaluate", iteration=0, value=30.0, tokens=0, seconds=30)  # 40 / s
    (figure,) = (each for each in estimates.figures(people.owner, training) if each.title.startswith("Time"))
    assert figure.title == "Time on CPU, 1 thread"
    limits = [each.rollout.max_turns * each.rollout.max_response_tokens for each in (training, evaluation)]
    length = 30 * limits[0] / limits[1]  # the same share of the limit
    seconds = START_SECONDS + trajectories * length * (1 + LEARNING_BY_SAMPLING) / 40
    bounds = [formatting.duration(seconds * factor) for factor in (1, 1 / 1.5, 1.5)]
    assert figure.value == "about {} ({} to {})".format(*bounds), "no update was recorded: hence the range"
    assert figure.how == "Median of 1 recorded run: 40 tokens/s sampled, 31 tokens/s learned."

    MetricPoint.objects.create(run=run, name="time/update", iteration=0, value=60.0, tokens=1200, seconds=90)
    assert "20 tokens/s learned" in estimates.figures(people.owner, training)[1].how
    assert expected_seconds(people.owner, training) == pytest.approx(
        START_SECONDS + trajectories * length * (1 / 40 + 1 / 20)
    )

    other = training.model_copy(update={"policy": training.policy.model_copy(update={"model": large})})
    shape = find_shape(large)
    assert shape is not None
    figure = estimates.figures(people.owner, other)[1]
    assert figure.how.startswith("1 recorded run of a model with 134.5 million parameters, scaled to the size of this")
    slower = (shape.parameters + 3e6) / (134_515_008 + 3e6)
    expected = START_SECONDS + slower * trajectories * length * (1 / 40 + 1 / 20)
    assert expected_seconds(people.owner, other) == pytest.approx(expected)
    imitation = training.model_copy(update={"kind": "sft"})
    assert estimates.figures(people.owner, imitation)[1].value.startswith("about "), "updates were recorded"
    tokens, time = estimates.figures(people.owner, load_preset(DEMO))[:2]
    assert time.how.startswith("From the demo on two idle CPU cores: "), (
        "a real model says nothing about the pocket policy"
    )
    assert "the share of the limit that the demo uses" in tokens.how


def test_the_pocket_policy_predicts_a_model_of_another_size_within_the_range(people: People, run: Run) -> None:
    """Figures of docs/performance.md and docs/real-models.md: the demo and the preset on idle cores of one machine."""
    demo, preset = load_preset(DEMO), load_preset("bandit-starpo_s-smollm2")
    iterations, sampled, minutes = 8, 15_752, 4
    Run.objects.filter(pk=run.pk).update(
        config=demo.model_dump(mode="json"), environment="BanditRev", device="CPU, 2 threads", parameters=960_896
    )
    for name, value in (("time/rollout", 4.4), ("time/update", 6.5)):
        for number in range(1, iterations + 1):
            MetricPoint.objects.create(
                run=run, name=name, iteration=number, value=value, tokens=number * sampled, seconds=11 * number
            )
    expected = expected_seconds(people.owner, preset)
    assert 0.5 < expected / (60 * minutes) < 2
    tokens, time = estimates.figures(people.owner, preset)[:2]
    assert "the share of the limit that recorded runs with other models used in BanditRev" in tokens.how
    assert time.value.startswith(f"about {formatting.duration(expected)} (")
    sentence = estimates.size_sentence(preset)
    assert sentence.startswith("16 steps on demonstrations, then 12 iterations of 4 × 8 trajectories: 384 trajectories")
    assert sentence.endswith(" and 256 in evaluations, at most 31 thousand sampled tokens")
    assert tokens.how.startswith("640 trajectories of ")


def test_the_warm_up_of_a_run_is_counted_and_its_recorded_steps_predict_others(people: People, run: Run) -> None:
    small = "HuggingFaceTB/SmolLM2-135M-Instruct"
    training = RunConfig.model_validate(
        {
            "policy": {"model": small},
            "environment": {"name": "BanditRev"},
            "iterations": 10,
            "evaluation": {"prompts": 4, "every": 4, "suites": []},
            "rollout": {"groups": 4, "group_size": 6, "max_turns": 1, "max_response_tokens": 48},
            "algorithm": {
                "estimator": "grpo",
                "updates_per_rollout": 2,
                "group_filter": "std",
                "group_filter_keep": 0.75,
            },
            "sft": {"warmup_steps": 16, "demonstrations": 30, "batch": 8, "mix": [{"name": "Bandit", "share": 0.5}]},
        }
    )
    plain = training.model_copy(update={"sft": training.sft.model_copy(update={"warmup_steps": 0})})
    Run.objects.filter(pk=run.pk).update(
        config=training.model_dump(mode="json"), environment="BanditRev", device="CPU", parameters=134_515_008
    )
    shown, demonstrated, played = 15.0, 16 * 7.5 * 15, 4 * 24 * 30  # 30 demonstrations are 7.5 in each batch
    for name, iteration, value, tokens in [
        *(("time/warmup", step - 15, 3.0, (step + 1) * demonstrated / 16) for step in range(16)),
        *(("time/rollout", number, 6.0, demonstrated + number * played / 4) for number in range(1, 5)),
        *(("time/update", number, 20.0, demonstrated + number * played / 4) for number in range(1, 5)),
    ]:
        MetricPoint.objects.create(
            run=run, name=name, iteration=iteration, value=value, tokens=int(tokens), seconds=iteration + 16
        )
    (work,) = recorded_work(people.owner)
    assert (work.per_trajectory, work.per_demonstration) == pytest.approx((30, shown))
    learned = demonstrated + 2 * 0.75 * played
    assert (work.sampled, work.learned) == pytest.approx((played, learned))
    assert (work.sampling_seconds, work.learning_seconds) == pytest.approx((24, 16 * 3 + 80))
    with_steps, without = (expected_seconds(people.owner, config) for config in (training, plain))
    sampling, learning = 24 / played, (16 * 3 + 80) / learned
    evaluated = (estimates.evaluations(training) - estimates.evaluations(plain)) * 4 * 30
    assert with_steps - without == pytest.approx(demonstrated * learning + evaluated * sampling)
    figure = next(each for each in estimates.figures(people.owner, training) if each.title == "Time on CPU")
    assert figure.how.endswith("Includes 16 steps on demonstrations.")


@pytest.mark.parametrize("steps", [0, 1, 7, 8, 9])
@pytest.mark.parametrize("every", [0, 1, 4])
def test_every_evaluation_of_a_run_is_counted(steps: int, every: int) -> None:
    config = RunConfig.model_validate(
        {
            "policy": {"model": "org/model"},
            "iterations": 9,
            "evaluation": {"every": every},
            "sft": {"warmup_steps": steps},
        }
    )
    due = [iteration for iteration in range(-steps, 10) if is_due(config, iteration)]
    assert estimates.evaluations(config) == len(due)


def test_a_model_without_runs_has_no_prediction() -> None:
    config = RunConfig.model_validate({"policy": {"model": "someone/Else-13B"}})
    assert estimates.needed_memory(config, 1) is None
    assert estimates._memory(config, 0, gpu=False).value == "unknown"
    assert estimates._memory(config, 13_000_000_000, gpu=False).value == "more than 52.0 GB"


def test_the_memory_estimate_is_the_trainers_with_its_largest_parts() -> None:
    config = load_preset("sokoban-starpo-paper")
    shape = find_shape(config.policy.model)
    assert shape is not None
    figure = estimates._memory(config, 0, gpu=True)
    assert figure.value == f"about {gigabytes(estimate.estimate_memory(config, shape, gpu=True).peak)}"
    assert "keys and values of 256 × " in figure.how
    assert "fewer parallel trajectories" in figure.how


def test_the_queue_requires_the_minimum_memory_per_gpu() -> None:
    config = load_preset("sokoban-starpo-paper")
    shape = find_shape(config.policy.model)
    assert shape is not None
    needed = estimates.needed_memory(config, 1)
    assert needed is not None
    assert needed < 24 * estimate.GB < estimate.estimate_memory(config, shape, gpu=True).peak
    copy = estimate.weight_bytes(config) * shape.parameters + estimate.CUDA_CONTEXT
    assert estimates.needed_memory(config, 2) == pytest.approx(2 * (needed + copy), rel=0.01), "actors have a copy"
    pocket = estimates.needed_memory(load_preset(DEMO), 0)
    assert pocket is not None
    assert pocket < 2 * estimate.GB


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rollout": {"temperature": 0.5}}, "sample at temperature 0.5"),
        ({"rollout": {"max_actions": 90}}, "allow only 25"),
        ({"evaluation": {"prompts": 0}}, "no evaluation"),
        ({"checkpoint": {"every": 999}}, "No checkpoint is written before the end"),
        ({"policy": {"device": "cuda"}}, "no running worker has a GPU"),
        (
            {
                "rollout": {"groups": 4, "group_size": 4},
                "algorithm": {"group_filter": "std", "group_filter_keep": 0.25},
            },
            "fewer than an",
        ),
        ({"algorithm": {"group_filter_keep": 0.5}}, "“Share of groups kept” = 0.5 is ignored: group filter “none”"),
        ({"environment": {"name": "ToolMCP"}}, "The pocket policy has never seen ToolMCP"),
        ({"environment": {"name": "WebShop"}}, "“Course” webshop teaches it"),
    ],
)
def test_warnings_are_shown_before_the_launch(changes: dict[str, object], message: str) -> None:
    assert summary.warnings(RunConfig(), SERVED, "training") == []
    (text,) = summary.warnings(RunConfig.model_validate(changes), SERVED, "training")
    assert message in text
