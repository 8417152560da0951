"""Prompts limited to the latest turns: context of each token, training rows, unchanged updates."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer import tiny
from tests.trainer.engines.scripted_sampler import ScriptedSampler
from tests.trainer.learner.test_learner import learner_for, played, weights
from tests.trainer.loops.test_train import events, run
from tests.trainer.policy.test_chat_format import STYLES, env_names, responses
from tests.trainer.rollout.test_runner import player, train_request
from trainer.algorithms.estimators import ESTIMATORS
from trainer.algorithms.losses import LossTotals
from trainer.config.rollout import SYSTEM
from trainer.config.run import PolicyConfig, RunConfig
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.journal.events import Turn
from trainer.learner.advantage_estimation import estimate_advantages
from trainer.learner.learner import Learner
from trainer.policy.chat_format import ChatFormat
from trainer.policy.load import load
from trainer.rollout.runner import RolloutRunner
from trainer.rollout.trajectory import collate

ROOM = "######\n#____#\n#_PX_#\n#___O#\n#____#\n######"


@given(data=st.data())
def test_every_sampled_token_is_trained_once_with_its_sampling_context(data):
    chat = ChatFormat(STYLES[data.draw(st.sampled_from(list(STYLES)))], think=data.draw(st.booleans()))
    rollout = {
        "think": chat.forced != "<answer>",
        "max_turns": 5,
        "context_turns": data.draw(st.integers(0, 6)),
    }
    run = RunConfig.model_validate({"environment": {"name": data.draw(env_names)}, "rollout": rollout})
    episode = tiny.episode(chat, run, seed=data.draw(st.integers(0, 50)))
    held, drawn = [], []  # tokens held by the engine; each sampled token with its whole context
    while not episode.ended:
        if episode.resets_prompt:
            held = []
        held = held + list(episode.prompt())
        response = data.draw(responses(chat))
        turn = episode.receive(response)
        for token, logprob in zip(response.ids, response.logprobs, strict=True):
            drawn.append((tuple(held), token, turn.turn, logprob))
            held.append(token)
    trajectory = episode.trajectory
    assert [i for i, own in zip(trajectory.ids, trajectory.sampled, strict=True) if own] == [d[1] for d in drawn]

    batch = collate([trajectory], pad_id=0)
    trained = [
        (
            tuple(batch.ids[row, :column].tolist()),
            int(batch.ids[row, column]),
            int(batch.turn_of[row, column]),
            float(batch.sampler_logprobs[row, column]),
        )
        for row, column in batch.mask.nonzero().tolist()
    ]
    assert trained == drawn
    assert not batch.rewards[~batch.mask].any(), "rewards lie on sampled tokens only"
    assert float(batch.rewards.sum()) == pytest.approx(trajectory.total_reward, abs=1e-4)
    for turn in trajectory.turns:
        of_turn = batch.turn_of == turn.turn
        assert float(batch.rewards[of_turn].sum()) == pytest.approx(turn.reward, abs=1e-5)
    shown = rollout["context_turns"]
    assert len(batch) == (max(1, len(trajectory.turns) - shown + 1) if shown else 1)


def test_a_window_shows_the_task_and_the_latest_turns(chat):
    config = RunConfig.model_validate({"rollout": {"context_turns": 2}})
    episode = tiny.episode(chat, config, options={"room": ROOM})
    prompts = []
    for _ in range(4):
        ids = episode.prompt()
        prompts.append((episode.resets_prompt, chat.tokenizer.decode(ids)))
        episode.receive(tiny.sampled(chat, tiny.answer("Left", "Jump", thought=f"thought {len(prompts)}")))
    assert [restarts for restarts, _ in prompts] == [False, False, True, True]
    text = prompts[3][1]
    assert SYSTEM in text
    assert text.count("Actions: Up, Down, Left, Right") == 1
    assert "Turn 1:" not in text
    assert "Turn 2:" not in text
    assert text.index("Turn 3:") < text.index("thought 3") < text.index("Turn 4:")
    assert "Reward: -0.1\nTurn 4:" in text
    assert "Actions left: 7" in text
    assert "thought 2" not in text
    assert episode.trajectory.total_reward == pytest.approx(4 * -0.2)


def test_a_window_of_one_turn_shows_the_current_state_only(chat):
    config = RunConfig.model_validate({"rollout": {"context_turns": 1}})
    episode = tiny.episode(chat, config, options={"room": ROOM})
    for number in range(3):
        text = chat.tokenizer.decode(episode.prompt())
        assert text.count("Turn ") == 1
        assert f"Turn {number + 1}:" in text
        assert text.endswith("<think>")
        episode.receive(tiny.sampled(chat, tiny.answer("Left")))


def test_the_context_limit_applies_to_the_window_not_the_dialogue(chat):
    def turns(shown):
        rollout = {"context_turns": shown, "max_turns": 9, "max_response_tokens": 20}
        config = RunConfig.model_validate({"rollout": rollout})
        played = player(config, chat, ScriptedSampler([[tiny.sampled(chat, "no answer")] * 9]), [], context=420).play(
            train_request(config, [1])
        )
        return len(played[0].turns), played[0].error

    assert turns(2) == (9, None)
    short, error = turns(0)
    assert short < 9
    assert error == "the dialogue filled the policy's context"


def in_windows(folder, shown, *, temperature=1.0, estimator="grpo"):
    """Groups played by a random policy, and a learner with the same weights."""
    rollout = {"context_turns": shown, "max_turns": 4, "temperature": temperature, "max_response_tokens": 10}
    config = tiny.config(folder, rollout=rollout, algorithm={"estimator": estimator})
    policy = load(folder, PolicyConfig())
    chat = ChatFormat(policy.tokenizer, think=True)
    found = RolloutRunner(
        config=config,
        chat=chat,
        sampler=TransformersSampler(policy.model, chat.eos_id, policy.pad_id),
        context=policy.context,
        emit=lambda *events: None,
    ).play(train_request(config, [3, 3], temperature=temperature))
    return found, Learner(config, policy), policy


@pytest.mark.parametrize("shown", [0, 1, 2])
@pytest.mark.parametrize("model, temperature", [("pocket", 1.0), ("llama", 0.7)])
def test_the_trainer_agrees_with_the_sampler_about_every_token(pocket_folder, llama_folder, model, temperature, shown):
    folder = {"pocket": pocket_folder, "llama": llama_folder}[model]
    found, learner, policy = in_windows(folder, shown, temperature=temperature)
    assert all(len(t.turns) == 4 for t in found)
    batch = collate(found, policy.pad_id)
    assert len(batch) == 6 * (5 - shown if shown else 1)
    scores = learner.score(batch)
    assert torch.allclose(scores.logprobs, batch.sampler_logprobs, rtol=0, atol=1e-4)
    batch.rewards += torch.where(batch.rewards != 0, torch.rand(batch.rewards.shape), batch.rewards)
    values = learner.update(batch, 1)
    assert values["mismatch/k3"] < 1e-6
    assert values["mismatch/ess"] == pytest.approx(1, abs=1e-5)


def split(trajectory, turns):
    """The same trajectory as if its policy had re-read the whole dialogue before each turn."""
    prompts = {}
    for turn in turns:
        start = trajectory.turn_of.index(turn)
        prompts[turn] = trajectory.ids[:start]
    return replace(trajectory, prompts=prompts)


@pytest.mark.parametrize(
    "estimator, aggregation",
    [
        *((estimator, "seq-mean-token-mean") for estimator in ESTIMATORS),
        ("grpo", "seq-mean-token-sum"),
        ("grpo", "seq-mean-token-sum-norm"),
        ("grpo", "token-mean"),
    ],
)
def test_the_update_is_independent_of_the_rows_per_trajectory(pocket_folder, estimator, aggregation):
    """If windows show everything, rows and sequences must give the same step."""
    results = []
    for parts in ([], [1]):
        learner = learner_for(
            pocket_folder,
            algorithm={"estimator": estimator, "aggregation": aggregation, "reward_normalization": "mean_std"},
            optimizer={"mini_batch_trajectories": 6, "max_grad_norm": 1e6},
        )
        learner.trainable["policy"].optimizer = torch.optim.SGD(learner.policy.model.parameters(), lr=0.1)
        found = [split(one, parts if number % 2 else []) for number, one in enumerate(played([1, 0, 0.5, 0, 2, 1]))]
        batch = collate(found, pad_id=0)
        assert len(batch) == (9 if parts else 6)
        batch.sampler_logprobs = learner.score(batch).logprobs
        metrics = learner.update(batch, 1)
        del metrics["mismatch/loss_share"]  # rows of the same trajectory repeat its prompt
        results.append((weights(learner), metrics))
    (whole, whole_metrics), (parted, parted_metrics) = results
    assert torch.allclose(whole, parted, rtol=0, atol=2e-6)
    assert whole_metrics == pytest.approx(parted_metrics, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_advantages_return_to_the_rows_of_their_tokens(estimator):
    config = RunConfig.model_validate({"algorithm": {"estimator": estimator}}).algorithm
    found = played([1, 0, 0.5, 0, 2, 1])
    whole, parted = collate(found, 0), collate([split(one, [1]) for one in found], 0)
    values = torch.randn(whole.mask.shape, generator=torch.Generator().manual_seed(3))
    in_parts = torch.zeros(parted.mask.shape)
    in_parts[parted.mask] = values[whole.mask]  # both in the order in which they were drawn
    expected = estimate_advantages(whole, whole.rewards, values, config)
    got = estimate_advantages(parted, parted.rewards, in_parts, config)
    assert got.advantages[parted.mask].tolist() == pytest.approx(expected.advantages[whole.mask].tolist(), abs=1e-5)
    assert not got.advantages[~parted.mask].any()
    assert (got.returns is None) == (expected.returns is None)
    if got.returns is not None:
        assert got.returns[parted.mask].tolist() == pytest.approx(expected.returns[whole.mask].tolist(), abs=1e-5)


def test_non_contiguous_rows_of_a_trajectory_are_refused():
    batch = collate([split(one, [1]) for one in played([1, 0])], 0)
    with pytest.raises(ValueError, match="must be adjacent"):
        estimate_advantages(batch.select(torch.tensor([0, 2, 1, 3])), batch.rewards, None, RunConfig().algorithm)


def test_a_trajectory_with_many_rows_counts_once():
    batch = collate([split(one, [1]) for one in played([1, 0, 2])], 0)
    assert len(batch) == 6
    assert LossTotals.of(batch.mask, batch.trajectory).sequences == 3
    assert LossTotals.of(batch.mask, batch.trajectory).tokens == int(batch.mask.sum())
    assert batch.tokens.tolist() == [n for one in played([1, 0, 2]) for n in [one.tokens] * 2]


def test_update_batches_hold_whole_trajectories(pocket_folder):
    learner = learner_for(pocket_folder, optimizer={"mini_batch_trajectories": 2})
    batch = collate([split(one, [1]) for one in played([1, 0, 0, 0, 0, 1])], 0)
    batch.sampler_logprobs = learner.score(batch).logprobs
    assert learner.update(batch, 1)["update/steps"] == 3


@pytest.mark.parametrize("estimator", ["gae", "bi_level_gae"])
def test_a_windowed_run_learns_and_logs_full_turns(pocket_folder, tmp_path, estimator):
    rollout = {"context_turns": 1, "max_turns": 3}
    run(tiny.config(pocket_folder, iterations=1, rollout=rollout, algorithm={"estimator": estimator}), tmp_path)
    recorded = [turn for turn in events(tmp_path, Turn) if turn.trajectory.startswith("00001-")]
    assert {turn.turn for turn in recorded} == {0, 1, 2}
    assert all(f"Turn {turn.turn + 1}:" in turn.state for turn in recorded)
    (values,) = [
        event.values for event in events(tmp_path) if event.type == "metrics" and "time/update" in event.values
    ]
    assert values["mismatch/k3"] < 1e-6
