"""What verl samples and learns is recorded, from batches and timers like its own (test_verl_training.py has these)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch

import echoscope
from echoscope.integrations.token_pieces import TokenPieces
from echoscope.integrations.verl_attempts import PlayedAttempt, StepFacts, record_step
from echoscope.integrations.verl_rows import (
    QueueRows,
    choose_groups,
    members_of_keys,
    read_outcome,
    read_sequence,
)
from echoscope.integrations.verl_tracking import install
from echoscope.integrations.verl_watch import WatchLimits
from tests.echoscope.recording.caught_warnings import caught_warnings
from tests.echoscope.test_integrations import events, tracking_of_verl
from trainer.journal import token_arrays

END = 1
LOOP = """
from contextlib import contextmanager


@contextmanager
def marked_timer(name, timing_raw, color=None):
    yield
    timing_raw[name] = timing_raw.get(name, 0) + 1.0


def compute_data_metrics(batch, use_critic=True):
    return {"critic/rewards/mean": float(batch.batch["token_level_rewards"].sum(-1).mean())}


class Trainer:
    def __init__(self, tokenizer, config, batches):
        self.tokenizer, self.config, self.batches = tokenizer, config, batches
        self.actor_rollout_wg = None

    def fit(self):
        logger = Tracking("ppo", "letters", ["echoscope"], self.config)
        self.global_steps = 1
        for batch in self.batches:
            metrics, timing = {}, {}
            with marked_timer("step", timing):
                with marked_timer("gen", timing, color="red"):
                    with marked_timer("tool", timing):
                        pass
                with marked_timer("update_actor", timing_raw=timing):
                    pass
            metrics.update(compute_data_metrics(batch=batch, use_critic=False))
            metrics.update({f"timing_s/{name}": value for name, value in timing.items()})
            logger.log(data=metrics, step=self.global_steps)
            self.global_steps += 1
        logger.finish()
        return timing
"""
"""The loop of verl's trainers, as far as it is observed."""


class Letters:
    """A tokenizer whose tokens are characters."""

    eos_token_id = END

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return "".join(("" if skip_special_tokens else "<end>") if token == END else chr(token) for token in ids)


def letters(text: str) -> list[int]:
    return [END if letter == "." else ord(letter) for letter in text]


def row(uid: str, response: str, reward: float, advantage: float, **changes: Any) -> dict[str, Any]:
    """A row of a batch. Capital letters of the response are of the policy, small ones of a tool."""
    ids = letters(response)
    mask = [int(not letter.islower()) for letter in response]
    return {
        "uid": uid,
        "prompt": letters(f"task {uid}"),
        "responses": ids,
        "response_mask": mask,
        "rollout_log_probs": [-0.5 * flag for flag in mask],
        "old_log_probs": [-0.75 * flag for flag in mask],
        "advantages": [advantage * flag for flag in mask],
        "token_level_scores": [0.0] * (len(ids) - 1) + [reward],
        "token_level_rewards": [0.0] * (len(ids) - 1) + [reward],
        "facts": {"data_source": "letters", "reward_model": {"ground_truth": "X"}, "acc": reward > 0.5},
        **changes,
    }


def batch_of(*rows: dict[str, Any]) -> Any:
    """Rows as in a DataProto: padded on the left before, and on the right after the prompt."""
    before, after = max(len(row["prompt"]) for row in rows) + 2, max(len(row["responses"]) for row in rows) + 1

    def padded(name: str) -> torch.Tensor:
        return torch.tensor([[*row[name], *[0] * (after - len(row[name]))] for row in rows])

    columns = [name for name in rows[0] if name not in ("uid", "prompt", "facts")]
    tensors = {name: padded(name) for name in columns}
    blanks = [before - len(row["prompt"]) for row in rows]
    tensors["prompts"] = torch.tensor([[0] * blank + row["prompt"] for row, blank in zip(rows, blanks, strict=True)])
    tensors["attention_mask"] = torch.tensor(
        [
            [0] * blank + [1] * (before - blank + len(row["responses"])) + [0] * (after - len(row["responses"]))
            for row, blank in zip(rows, blanks, strict=True)
        ]
    )
    facts = {name: numpy.array([row["facts"][name] for row in rows], dtype=object) for name in rows[0]["facts"]}
    uids = numpy.array([row["uid"] for row in rows], dtype=object)
    return SimpleNamespace(batch=tensors, non_tensor_batch={**facts, "uid": uids}, meta_info={})


def train(folder: Path, batches: list[Any], limits: WatchLimits | None = None, **config: Any) -> dict[str, list[Any]]:
    tracking = tracking_of_verl()
    install(tracking, folder=folder, limits=limits)
    names: dict[str, Any] = {"__name__": "tests.loop_of_verl", "Tracking": tracking}
    exec(LOOP, names)
    timing = names["Trainer"](Letters(), {"trainer": {}, **config}, batches).fit()
    assert timing == {"tool": 1.0, "gen": 1.0, "update_actor": 1.0, "step": 1.0}
    return events(folder)


def uses(recorded: dict[str, list[Any]], at: int = 0) -> dict[str, str]:
    """Responses of the attempts that taught nothing in a step, and why."""
    responses: dict[str, str] = {}
    for turn in recorded["turn"]:
        responses[turn.trajectory] = responses.get(turn.trajectory, "") + turn.response
    unused = recorded["attempts_used"][at].unused
    return {responses.get(key, ""): reason for reason, keys in unused.items() for key in keys}


def test_a_batch_is_recorded_with_turns_tokens_and_what_the_update_learnt_from(tmp_path: Path) -> None:
    rejected = row("c", "REJECTED.", 1.0, 2.0) | {"response_mask": [0] * 9}
    recorded = train(
        tmp_path,
        [
            batch_of(
                row("a", "LOOKwallLEFT.", 1.0, 0.5),
                row("a", "WRONG.", 0.0, -0.5),
                row("b", "SAME.", 0.0, 0.0),
                row("b", "LIKE.", 0.0, 0.004),
                row("c", "EXPECTED.", 0.5, 0.0),
                rejected,
                row("d", "toolonly", 0.0, 1.0),
            )
        ],
    )
    (first, *_) = recorded["group_started"]
    assert [len(group.members) for group in recorded["group_started"]] == [2, 2, 2, 1]
    assert (first.environment, first.iteration) == ("letters", 1)
    look, left = (turn for turn in recorded["turn"] if turn.trajectory == first.members[0])
    assert (look.state, look.response, left.state, left.response) == ("task a", "LOOK", "wall", "LEFT")
    (end, *_) = recorded["trajectory_finished"]
    assert (end.success, end.total_reward, end.tokens) == (True, 1.0, 9)
    assert end.extra == {"record": {"ground_truth": "X", "acc": True}}
    event = next(event for event in recorded["trajectory_tokens"] if event.trajectory == first.members[0])
    tokens = token_arrays.unpack(event.data)
    assert tokens.context is not None
    assert tokens.context.text == "task aLOOKwallLEFT<end>"
    assert [(part.sampled, part.in_loss, part.tokens) for part in tokens.context.segments] == [
        (False, False, 6),
        (True, True, 4),
        (False, False, 4),
        (True, True, 5),
    ]
    assert tokens.ids.tolist() == letters("LOOKLEFT.")
    assert tokens.advantages is not None
    assert tokens.advantages.tolist() == [0.5] * 9
    assert (event.mismatch, event.wrong) == (pytest.approx(0.25), False)
    assert uses(recorded) == {
        "SAME": "equal_rewards",
        "LIKE": "equal_rewards",
        "EXPECTED": "zero_advantage",
        "REJECTED": "other",
        "": "empty",
    }
    assert recorded["attempts_used"][0].trained == 2
    (metrics,) = recorded["metrics"]
    assert metrics.values["reward/mean"] == pytest.approx(2.5 / 7)
    assert metrics.values["success/rate"] == pytest.approx(2 / 7)


def test_phases_are_the_outermost_timers_of_a_step(tmp_path: Path) -> None:
    batch = batch_of(row("a", "LEFT.", 1.0, 0.5))
    recorded = train(tmp_path, [batch, batch], WatchLimits(attempts=0))
    assert not {"group_started", "attempts_used"} & recorded.keys()
    laps = [(lap.iteration, [list(span.work) for span in lap.tracks["trainer"]]) for lap in recorded["timeline"]]
    assert laps == [(1, [["rollout"], ["update"]]), (2, [["rollout"], ["update"]])]


def test_whole_groups_of_some_steps_are_recorded_and_metrics_are_those_of_all(tmp_path: Path) -> None:
    rows = [row(uid, "LEFT.", float(at), 0.5 - at) for uid in ("b", "a", "c") for at in (0, 1)]
    recorded = train(tmp_path, [batch_of(*rows)] * 4, WatchLimits(attempts=3, every=2), trainer={"critic_warmup": 3})
    groups = [(group.iteration, len(group.members), group.seed) for group in recorded["group_started"]]
    assert groups == [(2, 2, groups[0][2]), (4, 2, groups[0][2])], "the same task"
    assert [event.counts for event in recorded["attempts_used"]] == [
        {"trained": 0, "critic_warmup": 2},
        {"trained": 2},
    ]
    learnt = [token_arrays.unpack(event.data).context for event in recorded["trajectory_tokens"]]
    assert [any(part.in_loss for part in context.segments) for context in learnt if context] == [False] * 2 + [True] * 2
    values = [event.values for event in recorded["metrics"]]
    assert values[1]["reward/in_group_std"] == values[3]["reward/in_group_std"] == 0.5
    assert "reward/in_group_std" not in values[0]
    assert choose_groups(["b", "a", "b"], 1) == {"a"}
    assert choose_groups(["a", "a"], 1) == {"a"}, "at least one group"


def test_a_batch_that_cannot_be_read_is_one_warning_and_training_goes_on(tmp_path: Path) -> None:
    good, bad = batch_of(row("a", "LEFT.", 1.0, 0.5)), batch_of(row("a", "LEFT.", 1.0, 0.5))
    del bad.batch["attention_mask"]
    with caught_warnings() as messages:
        recorded = train(tmp_path, [bad, bad, good])
    assert len(messages) == 1
    assert "read_batch() recorded nothing: 'attention_mask'" in messages[0]
    assert [event.iteration for event in recorded["metrics"]] == [1, 2, 3]
    assert [event.iteration for event in recorded["attempts_used"]] == [3]


def test_limits_are_stated_by_environment_variables() -> None:
    stated = {"ECHOSCOPE_ATTEMPTS": "8", "ECHOSCOPE_EVERY": " ", "ECHOSCOPE_SUCCESS_AT": "-0.5"}
    assert WatchLimits.stated_in(stated) == WatchLimits(attempts=8, every=1, success_at=-0.5)
    with pytest.warns(RuntimeWarning, match="ECHOSCOPE_EVERY is 'often', not a number from 0 on: 1 counts"):
        assert WatchLimits.stated_in({"ECHOSCOPE_EVERY": "often"}) == WatchLimits()


def test_rows_of_the_transfer_queue_are_contexts_of_attempts(tmp_path: Path) -> None:
    keys = ["b_0_0", "a_0_1", "a_0_0", "a_1_0"]
    rows = [
        row("b", "SAME.", 0.0, 0.0),
        row("a", "LEFT.", 1.0, 0.5),
        row("a", "LOOK.", 1.0, 0.5),
        row("a", "UP.", 0, -1),
    ]
    members = members_of_keys(keys)
    assert [(member.group, list(member.rows)) for member in members] == [("b", [0]), ("a", [2, 1]), ("a", [3])]
    data: dict[str, Any] = {
        name: [torch.tensor(row[name]) for row in rows]
        for name in ("responses", "response_mask", "rollout_log_probs", "old_log_probs", "advantages")
    }
    data |= {"prompts": [torch.tensor(row["prompt"]) for row in rows]}
    data |= {"rm_scores": [torch.tensor(row["token_level_scores"]) for row in rows]}
    data |= {
        "raw_prompt": [[{"role": "system", "content": "Rules"}, {"role": "user", "content": "Go"}]] * 4,
        "extra_fields": [{"reward_extra_info": {"solved": row["facts"]["acc"], "note": "n"}} for row in rows],
    }
    queue = QueueRows(data, range(4))
    attempts = [
        PlayedAttempt(
            read_outcome(queue, member.rows[-1], member.group, 1.0),
            [read_sequence(queue, at, recomputed=False) for at in member.rows],
            queue.facts(member.rows[-1]),
            "stale" if member.group == "b" else "",
        )
        for member in members
    ]
    with echoscope.init("Queue", folder=tmp_path) as run:
        record_step(run, attempts, StepFacts(iteration=1, longest=5), TokenPieces(Letters()))
    recorded = events(tmp_path)
    assert uses(recorded) == {"SAME": "stale"}
    prompts = {group.prompt for group in recorded["group_started"]}
    assert prompts == {"Rules"}
    attempt = recorded["group_started"][1].members[0]
    turns = [(turn.state, turn.response) for turn in recorded["turn"] if turn.trajectory == attempt]
    assert turns == [("Go", "LOOK"), ("task a", "LEFT")]
    (event,) = [event for event in recorded["trajectory_tokens"] if event.trajectory == attempt]
    tokens = token_arrays.unpack(event.data)
    assert tokens.context is not None
    assert [part.restarts for part in tokens.context.segments] == [True, False, True, False]
    assert tokens.context.text == "task aLOOK<end>task aLEFT<end>"
    assert event.mismatch is None, "the trainer's log-probabilities are copies of the sampler's"
    ends = {end.trajectory: end for end in recorded["trajectory_finished"]}
    assert (ends[attempt].success, ends[attempt].end) == (True, "truncated")
    assert ends[attempt].extra == {"record": {"solved": True, "note": "n"}}
