"""Weaknesses of published code of this kind, one test each, that must not occur here.

The points are those of the specification's list. Each goes through the real code; other tests check the parts closely.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.envs.plugins import offering
from tests.trainer import tiny
from tests.trainer.engines.scripted_sampler import ScriptedSampler
from tests.trainer.loops.test_train import events, run
from tests.trainer.rollout.test_runner import ROOM, player, train_request
from trainer.algorithms import advantages
from trainer.algorithms.group_filter import keep_groups, kept_count
from trainer.algorithms.rewards import normalize
from trainer.config.run import RunConfig
from trainer.diagnostics.compute import pass_at_k
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.evaluation import suite_runner
from trainer.journal.events import GroupStarted, TrajectoryFinished, Turn
from trainer.learner.advantage_estimation import estimate_advantages
from trainer.loops.stages import checkpoints
from trainer.policy.chat_format import ChatFormat
from trainer.rollout.trajectory import Trajectory, collate
from trainer.seeds import Purpose, derive

ROOT = Path(__file__).parents[3]
UGLY = " so \n</think> <answer> left||RIGHT </answer> and more <answer>Up</answer>"
"""A response that a careless trainer would strip, cut after its first answer, and retokenise."""


def dialogue(chat, *texts, ended=True, **rollout) -> Trajectory:
    """An episode with these responses, one per turn."""
    episode = tiny.episode(chat, RunConfig.model_validate({"rollout": rollout}), options={"room": ROOM})
    for text in texts:
        episode.prompt()
        episode.receive(tiny.sampled(chat, text, ended=ended))
    return episode.trajectory


def test_the_loss_mask_covers_sampled_tokens_only_and_holds_the_last_reward() -> None:
    for style, tokenizer in tiny.styles().items():
        chat = ChatFormat(tokenizer, think=True)
        texts = [tiny.answer("Left"), tiny.answer("Jump")]
        played = dialogue(chat, *texts, max_turns=2)
        batch = collate([played], pad_id=0)
        trained = batch.ids[0][batch.mask[0]].tolist()
        assert trained == [token for text in texts for token in tiny.sampled(chat, text).ids], style
        assert chat.tokenizer.decode(trained).count("<think>") == 0
        paid = batch.rewards[0].nonzero()[:, 0]
        assert batch.mask[0][paid].all()
        assert int(paid[-1]) == int(batch.mask[0].nonzero()[-1])
        assert float(batch.rewards.sum()) == pytest.approx(played.total_reward)


@pytest.mark.parametrize("ended", [True, False])
def test_responses_are_trained_as_sampled_with_sampler_log_probabilities(chat, ended) -> None:
    drawn = tiny.sampled(chat, UGLY, ended=ended)
    played = dialogue(chat, UGLY, ended=ended)
    batch = collate([played], pad_id=0)
    assert batch.ids[0][batch.mask[0]].tolist() == drawn.ids, "not stripped, not cut, no end token added"
    assert torch.equal(batch.sampler_logprobs[0][batch.mask[0]], torch.tensor(drawn.logprobs))
    assert [action.name for action in played.turns[0].actions] == ["Left", "Right"], "though its answer is understood"


def test_masks_work_without_chatml_and_with_history_rewriting_templates() -> None:
    styles = tiny.styles()
    for style in ("llama-3", "no system role, own end of turn", "thoughts cut from history"):
        chat = ChatFormat(styles[style], think=True)
        thought = "a thought that must stay"
        played = dialogue(chat, tiny.answer("Left", thought=thought), tiny.answer("Right"), max_turns=2)
        before_second = chat.tokenizer.decode(played.ids[: played.turn_of.index(1)])
        assert thought in before_second, style
        assert sum(played.sampled) == sum(turn.tokens for turn in played.turns)
    assert "<|im_start|>" not in styles["llama-3"].get_vocab()


def test_the_filter_uses_raw_rewards_and_keeps_at_least_one_group() -> None:
    narrow, wide = [0.0, 0.1], [0.0, 10.0]
    state = torch.tensor([0, 0, 1, 1])
    scores = normalize(
        torch.tensor(narrow + wide), state, torch.zeros(4).long(), grouping="state", method="mean_std"
    ).tolist()
    blind = keep_groups([scores[:2], scores[2:]], "std", 0.5, True)
    assert blind.groups[0].std == pytest.approx(blind.groups[1].std, rel=1e-3), "what it would see after normalisation"
    assert keep_groups([narrow, wide], "std", 0.5, True).kept == [False, True]
    assert kept_count(3, 0.25) == kept_count(1, 0.01) == 1


def test_a_run_filters_by_raw_rewards_whatever_normalisation_it_uses(pocket_folder, tmp_path) -> None:
    normalised = {
        "reward_normalization": "mean_std",
        "group_filter": "std",
        "group_filter_keep": 0.5,
        "drop_zero_std": False,
    }
    config = tiny.config(
        pocket_folder, iterations=1, algorithm=normalised | {"estimator": "gae"}, evaluation={"prompts": 0}
    )
    run(config, tmp_path)
    rewards: dict[int, list[float]] = {}
    group = {member: e.group for e in events(tmp_path, GroupStarted) for member in e.members}
    for event in events(tmp_path, TrajectoryFinished):
        rewards.setdefault(group[event.trajectory], []).append(event.total_reward)
    scored = next(event for event in events(tmp_path) if event.type == "groups_scored")
    wanted = keep_groups([rewards[score.group] for score in scored.groups], "std", 0.5, False)
    assert [score.kept for score in scored.groups] == wanted.kept
    assert [score.std for score in scored.groups] == pytest.approx([stats.std for stats in wanted.groups])


def test_grpo_and_rloo_group_a_shuffled_batch_without_duplicates() -> None:
    rewards = torch.tensor([[1.0], [5.0], [3.0], [9.0]])
    group, mask = torch.tensor([7, 2, 7, 2]), torch.ones(4, 1, dtype=torch.bool)
    found = advantages.grpo(rewards, group, mask, False)
    assert found[:, 0].tolist() == pytest.approx([-1, -2, 1, 2])
    assert advantages.rloo(rewards, group, mask)[:, 0].tolist() == pytest.approx([-2, -4, 2, 4])
    unique = advantages.grpo(rewards, torch.arange(4), mask, False)
    assert not torch.equal(unique, found), "a fresh id for each row would lose the groups"


def test_an_update_contains_every_trajectory_once(pocket_folder, tmp_path, monkeypatch) -> None:
    from trainer.learner.learner import Learner

    seen = []
    update = Learner.update
    monkeypatch.setattr(Learner, "update", lambda self, batch, n: seen.append(batch) or update(self, batch, n))
    config = tiny.config(
        pocket_folder,
        iterations=1,
        rollout={"groups": 3, "group_size": 5},
        algorithm={"estimator": "gae", "drop_zero_std": False},
        evaluation={"prompts": 0},
    )
    run(config, tmp_path)
    assert len(seen[0]) == 15, "no row is added to fill up a batch"
    assert seen[0].group.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert seen[0].trajectory.tolist() == list(range(15))


def test_gae_skips_environment_tokens_and_turn_ends_do_not_depend_on_rewards(chat) -> None:
    config = RunConfig(
        algorithm={"estimator": "bi_level_gae", "whiten_advantages": False, "gae_lambda": 0.9, "gamma": 0.9}
    )
    played = dialogue(chat, tiny.answer("Left"), tiny.answer("Right"), tiny.answer("Left"), max_turns=3)
    for turn in played.turns[1:]:
        turn.reward = 0.0  # a turn in the middle and the last one without any reward
    batch = collate([played], pad_id=0)
    values = torch.rand(batch.mask.shape, generator=torch.Generator().manual_seed(0))
    noisy = torch.where(batch.mask, values, torch.full_like(values, 1e6))
    for estimator in ("gae", "bi_level_gae"):
        algorithm = config.algorithm.model_copy(update={"estimator": estimator})
        found, same = (estimate_advantages(batch, batch.rewards, each, algorithm) for each in (values, noisy))
        assert found.advantages.isfinite().all()
        assert torch.equal(found.advantages, same.advantages), "values on environment tokens are never read"
    ends = advantages.turn_ends(batch.turn_of, batch.mask)[0].nonzero()[:, 0].tolist()
    assert len(ends) == 3


def test_the_format_penalty_is_added_to_its_turn_and_valid_actions_count(chat) -> None:
    played = dialogue(chat, tiny.answer("Left", "Jump"), tiny.answer("Jump", "Fly"), "no tags at all", max_turns=3)
    one_bad, all_bad, broken = played.turns
    assert [turn.terms.get("format") for turn in played.turns] == [-0.1] * 3
    assert [turn.reward for turn in played.turns] == [pytest.approx(sum(turn.terms.values())) for turn in played.turns]
    rewards = collate([played], pad_id=0).rewards[0]
    assert rewards[rewards != 0].tolist() == pytest.approx([turn.reward for turn in played.turns])
    assert [action.status for action in one_bad.actions] == ["executed", "illegal"], "one bad action spoils no other"
    assert one_bad.reward != all_bad.reward
    assert (all_bad.reward, broken.reward) == (pytest.approx(-0.1), pytest.approx(-0.1))
    assert played.end == "turns", "a turn without effect counts, too, so that episodes end"


def test_a_shorter_window_keeps_rewards_and_turn_numbers(chat) -> None:
    texts = [tiny.answer("Left"), tiny.answer("Right"), tiny.answer("Jump"), tiny.answer("Left")]
    whole, window = (dialogue(chat, *texts, max_turns=4, context_turns=shown) for shown in (0, 1))
    assert [turn.reward for turn in window.turns] == [turn.reward for turn in whole.turns]
    assert [turn.turn for turn in window.turns] == [0, 1, 2, 3]
    assert [f"Turn {number}:" in turn.state for number, turn in enumerate(window.turns, start=1)] == [True] * 4
    batch = collate([window], pad_id=0)
    assert len(batch) > 1, "each turn was read after its own prompt"
    assert float(batch.rewards.sum()) == pytest.approx(whole.total_reward)
    assert sorted(batch.turn_of[batch.mask].unique().tolist()) == [0, 1, 2, 3]


def test_prompts_are_distinct_with_pass_at_any_k_and_intervals(pocket_folder) -> None:
    few, many = (
        [plan.seed for plan in suite_runner.group_plans(RunConfig(evaluation={"prompts": number}), 0)]
        for number in (50, 400)
    )
    assert many[:50] == few
    assert len(set(many)) == 400
    assert [pass_at_k(2, 8, k) for k in (1, 4, 8)] == [0.25, pytest.approx(11 / 14), 1.0]
    low, high = suite_runner.success_interval([[True]] * 20 + [[False]] * 60)
    assert 0.15 < low < 0.25 < high < 0.36


def test_resume_restores_seeds_optimiser_and_all_state(pocket_folder, tmp_path) -> None:
    config = tiny.config(pocket_folder, iterations=2, algorithm={"estimator": "gae"}, evaluation={"prompts": 0})
    run(config, tmp_path / "whole")
    half = tmp_path / "half"
    run(config, half, stop=lambda: checkpoints.checkpoint_iterations(half) == [1])
    assert checkpoints.checkpoint_iterations(half) == [1]
    run(config, half)

    def seeds(folder):
        return [event.seed for event in events(folder, GroupStarted)]

    assert seeds(half)[-2:] == seeds(tmp_path / "whole")[-2:]
    assert len(set(seeds(tmp_path / "whole"))) == 4, "no puzzle comes twice"
    moments = [
        torch.load(checkpoints.path_of(folder, 2) / "learner.pt", weights_only=True)["policy_optimizer"]["state"]
        for folder in (half, tmp_path / "whole")
    ]
    assert all(torch.equal(moments[0][key]["exp_avg"], moments[1][key]["exp_avg"]) for key in moments[0])


def test_seeds_are_stable_across_processes_and_global_rng_is_unused(policy, chat) -> None:
    code = "from trainer.seeds import Purpose, derive; print(derive(7, Purpose.SAMPLING, 3, 1, 4))"
    recorded = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert recorded == {str(derive(7, Purpose.SAMPLING, 3, 1, 4))}

    config = tiny.config("pocket")

    def responses():
        sampler = TransformersSampler(policy.model, chat.eos_id, policy.pad_id)
        played = player(config, chat, sampler, []).play(train_request(config, [2]))
        return [trajectory.ids for trajectory in played]

    torch.manual_seed(1)
    first, state = responses(), torch.random.get_rng_state()
    torch.manual_seed(1)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    assert responses() == first


def test_a_hanging_environment_ends_its_own_trajectory_after_the_timeout(chat, tmp_path) -> None:
    hangs = {"name": "Trouble", "settings": {"when": "step", "how": "sleep", "every": 2}, "step_timeout": 1.0}
    with offering(tmp_path, Trouble="tests.envs.broken_env:Trouble"):
        config = RunConfig.model_validate({"environment": hangs})
        sampler = ScriptedSampler([[tiny.sampled(chat, tiny.answer("Go", "Go"))] * 5 for _ in range(3)])
        playing = player(config, chat, sampler, [])
        try:
            played = playing.play(train_request(config, [3]))
        finally:
            playing.close()
    assert [trajectory.failed for trajectory in played] == [True, False, True]
    assert "within 1 s" in played[0].error
    assert len(played[1].turns) > 1, "the others play on"


def test_a_turn_can_be_read_as_soon_as_it_is_played(policy, chat) -> None:
    config = tiny.config("pocket")
    recorded, played_so_far = [], []
    sampler = TransformersSampler(policy.model, chat.eos_id, policy.pad_id)
    playing = player(config, chat, sampler, recorded, progress=lambda *_: played_so_far.append(len(turns(recorded))))
    playing.play(train_request(config, [3]))
    assert played_so_far == list(range(1, len(turns(recorded)) + 1)), "emitted one by one, before the step ends"
    assert all(turn.response and turn.board for turn in turns(recorded))


def turns(recorded) -> list[Turn]:
    return [event for event in recorded if isinstance(event, Turn)]
