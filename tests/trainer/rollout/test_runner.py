"""Episodes and rollout runner: budgets, penalties, failing environments, order of events, interruption."""

from collections import defaultdict
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import envs
from envs.sokoban.sokoban_env import Sokoban
from tests.trainer import tiny
from tests.trainer.engines.scripted_sampler import ScriptedSampler
from trainer.algorithms import thought_rewards
from trainer.config.run import RunConfig
from trainer.engines.transformers.transformers_sampler import TransformersSampler
from trainer.journal.events import GroupStarted, TrajectoryFinished, Turn
from trainer.rollout.episode import ContextError, Episode
from trainer.rollout.prompts import opening_message
from trainer.rollout.runner import GroupPlan, Interrupted, RolloutRequest, RolloutRunner
from trainer.rollout.trajectory import Trajectory

ROOM = "######\n#____#\n#_PX_#\n#___O#\n#____#\n######"
SOLVED_BY_RIGHT = "######\n#____#\n#_PXO#\n#____#\n#____#\n######"


def start(chat, room=ROOM, **rollout):
    return tiny.episode(chat, RunConfig.model_validate({"rollout": rollout}), options={"room": room})


def respond(episode, text, *, ended=True):
    episode.prompt()
    return episode.receive(tiny.sampled(episode.chat, text, ended=ended))


def test_a_turn_executes_its_actions_and_adds_up_its_rewards(chat):
    episode = start(chat)
    turn = respond(episode, tiny.answer("left", "RIGHT"))
    assert [(action.text, action.name, action.status) for action in turn.actions] == [
        ("left", "Left", "executed"),
        ("RIGHT", "Right", "executed"),
    ]
    assert turn.terms == {"environment": pytest.approx(-0.2)}
    assert turn.reward == pytest.approx(sum(action.reward for action in turn.actions))
    assert (turn.format_valid, turn.problem, turn.truncated) == (True, None, False)
    assert episode.actions_left == 8
    assert turn.board is not None
    assert turn.actions[0].board != turn.board


def test_unknown_actions_cost_the_penalty_once_and_known_ones_are_executed(chat):
    episode = start(chat)
    turn = respond(episode, tiny.answer("Left", "Jump", "Fly"))
    assert [action.status for action in turn.actions] == ["executed", "illegal", "illegal"]
    assert turn.terms == {"environment": pytest.approx(-0.1), "format": -0.1}
    assert turn.problem == "no such action: 'Jump', 'Fly'"
    assert episode.actions_left == 9


def test_thought_rewards_are_weighted_named_and_added(chat):
    config = RunConfig.model_validate({"rewards": {"terms": {"facts_true": 0.5, "action_follows": 0.2, "repeats": -1}}})
    episode = tiny.episode(chat, config, options={"room": ROOM})
    thought = "I am at 3,3. Box 2,2. I go Left."
    turn = respond(episode, f"{thought}</think><answer>Left</answer>")
    assert turn.thought == thought
    assert turn.terms == {"environment": -0.1, "facts_true": 0.25, "action_follows": 0.2, "repeats": 0.0}
    assert turn.reward == pytest.approx(0.35)
    again = respond(episode, f"{thought}</think><answer>Left</answer>")
    assert again.terms["repeats"] == -1.0
    assert episode.trajectory.total_reward == pytest.approx(turn.reward + again.reward)


def test_progress_moves_credit_between_turns_and_adds_up_to_the_same(chat):
    """The room is solved by Right. Losing costs the chance of 1 once, at the turn that loses it."""
    rollout = {"max_turns": 4, "max_actions_per_turn": 3, "max_actions": 8}
    config = RunConfig.model_validate({"rewards": {"terms": {"progress": 1.0}}, "rollout": rollout})

    def credit(*answers):
        episode = tiny.episode(chat, config, options={"room": SOLVED_BY_RIGHT})
        turns = [respond(episode, tiny.answer(*answer)) for answer in answers]
        assert episode.ended
        return [turn.terms["progress"] for turn in turns]

    assert credit(["Right"]) == [-1.0], "the reward of the environment says that it was won"
    assert credit(["Left"], ["Right"], ["Right"]) == [0.0, 0.0, -1.0], "a detour within the budget costs nothing"
    lost_at_once = ["Up", "Right", "Down"]  # the box is pushed down, away from the row of its target
    assert credit(lost_at_once, ["Up"], ["Up"], ["Up"]) == [-1.0, 0.0, 0.0, 0.0]
    assert credit(["Left"], ["Left"], ["Left"], ["Left"]) == [0.0, 0.0, 0.0, -1.0], "time to win, until there is none"


def test_progress_is_nothing_where_the_chance_is_unknown(chat):
    config = RunConfig.model_validate(
        {"environment": {"name": "Bandit"}, "rewards": {"terms": {"progress": 1.0}}, "rollout": {"max_turns": 1}}
    )
    turn = respond(tiny.episode(chat, config), tiny.answer("Phoenix"))
    assert turn.terms["progress"] == 0.0


def test_claims_of_a_thought_are_compared_with_the_state_before_the_turn(chat):
    episode = start(chat)
    thought = "I am at 3,3. Box 3,5."
    for verdicts in ([True, False], [False, True]):
        turn = respond(episode, f"{thought}</think><answer>Right</answer>")
        assert [(thought[claim.start : claim.end], claim.true) for claim in turn.claims] == [
            ("I am at 3,3", verdicts[0]),
            ("Box 3,5", verdicts[1]),
        ]


def test_a_failing_thought_reward_ends_its_trajectory_and_is_named(chat, monkeypatch):
    monkeypatch.setitem(thought_rewards.BUILT_IN_TERMS, "broken", lambda turn: float("nan"))
    config = RunConfig.model_validate({"rewards": {"terms": {"broken": 1}}})
    episode = tiny.episode(chat, config, options={"room": ROOM})
    respond(episode, tiny.answer("Left"))
    assert episode.ended
    assert "the reward term 'broken' returned nan" in episode.trajectory.error


def test_an_unparsable_response_costs_the_penalty_and_a_turn_but_no_action(chat):
    episode = start(chat, max_turns=3)
    for number in range(3):
        assert not episode.ended
        turn = respond(episode, "blah <answer", ended=number != 1)
        assert turn.terms == {"environment": 0, "format": -0.1}
        assert not turn.actions
    assert "(cut at" in episode.trajectory.turns[1].problem
    assert episode.trajectory.turns[1].truncated
    closing = episode.trajectory.finished()
    assert (closing.end, closing.turns, closing.actions, closing.success) == ("turns", 3, 0, False)
    assert closing.total_reward == pytest.approx(-0.3)


def test_actions_after_the_end_are_ignored_without_a_penalty(chat):
    episode = start(chat, SOLVED_BY_RIGHT)
    turn = respond(episode, tiny.answer("Right", "Up", "Right"))
    assert [action.status for action in turn.actions] == ["executed", "ignored", "ignored"]
    assert turn.reward == pytest.approx(10.9)
    closing = episode.trajectory.finished()
    assert (closing.end, closing.success, closing.actions, closing.error) == ("terminated", True, 1, None)


def test_the_budget_of_actions_cuts_a_turn_and_ends_the_episode(chat):
    episode = start(chat, max_actions=3)
    respond(episode, tiny.answer("Left", "Right"))
    turn = respond(episode, tiny.answer("Left", "Right"))
    assert [action.status for action in turn.actions] == ["executed", "ignored"]
    assert (episode.ended, episode.trajectory.end, episode.actions_left) == (True, "actions", 0)


def test_the_first_irreversible_move_is_found(chat):
    episode = start(chat)
    respond(episode, tiny.answer("Left"))
    assert episode.trajectory.lost_at is None
    respond(episode, tiny.answer("Right", "Up", "Right", "Down"))
    lost = respond(episode, tiny.answer("Down"))
    at = episode.trajectory.lost_at
    assert at is not None
    hint = episode.trajectory.turns[at.turn].actions[at.action].hint
    assert hint.solvable == "no"
    assert at.reason == hint.reason
    before = [action.hint for turn in episode.trajectory.turns for action in turn.actions if action.hint]
    assert [hint.solvable for hint in before[: before.index(hint)]].count("no") == 0
    assert lost.turn == 2


def test_the_next_prompt_has_the_environment_reward_of_the_turn(chat):
    episode = start(chat)
    assert "Reward" not in chat.tokenizer.decode(episode.prompt())
    episode.receive(tiny.sampled(chat, tiny.answer("Left", "Jump")))
    text = chat.tokenizer.decode(episode.prompt())
    assert "Reward: -0.1\nTurn 2:\n" in text
    assert "Actions left: 9" in text


def test_the_span_of_a_thought_ends_before_its_closing_tag(chat):
    episode = start(chat)
    respond(episode, tiny.answer("Left", thought="I am at 3,3. Box 3,4."))
    respond(episode, "never closed")
    for (first, last), thought in zip(
        episode.trajectory.thought_spans, ["I am at 3,3. Box 3,4.", "never closed<|im_end|>"], strict=True
    ):
        assert chat.tokenizer.decode(episode.trajectory.ids[first:last]) == thought


def test_a_dialogue_that_fills_the_context_ends_with_an_error(chat):
    env = envs.make("Sokoban")
    env.reset(seed=0)
    run = RunConfig.model_validate({"rollout": {"max_response_tokens": 20, "max_turns": 50}})
    episode = Episode(env, run, chat, Trajectory(id="t", group=0, member=0), 500)
    while not episode.ended:
        respond(episode, "nothing")
        assert len(episode.trajectory.ids) <= 500
    closing = episode.trajectory.finished()
    assert closing.end == "truncated"
    assert closing.error == "the dialogue filled the policy's context"
    assert len(episode.trajectory.ids) + 20 <= 500
    assert closing.turns > 1


def test_a_first_prompt_that_does_not_fit_is_refused_with_the_numbers(chat):
    env = envs.make("Sokoban")
    env.reset(seed=0)
    with pytest.raises(ContextError, match=r"the first prompt of Sokoban has \d+ tokens .* holds only 100"):
        Episode(env, RunConfig(), chat, Trajectory(id="t", group=0, member=0), 100)


class Failing(Sokoban):
    """An environment that fails in step, render or hint, or returns a reward that is not finite."""

    def __init__(self, how):
        super().__init__()
        self.how, self.steps = how, 0

    def step(self, action):
        self.steps += 1
        text, reward, *rest = super().step(action)
        if self.steps == 2 and self.how == "step":
            raise RuntimeError("the pipe is broken")
        if self.steps == 2 and self.how == "reward":
            reward = float("nan")
        return text, reward, *rest

    def render(self):
        if getattr(self, "steps", 0) == 2 and self.how == "render":
            raise ZeroDivisionError("division by zero")
        return "hidden" if self.how == "render" else super().render()

    def hint(self):
        if self.steps == 2 and self.how == "hint":
            raise KeyError("best")
        return super().hint()


@pytest.mark.parametrize(
    "how, error",
    [
        ("step", "the environment failed: RuntimeError: the pipe is broken"),
        ("reward", "the environment failed: ValueError: the reward nan is not a finite number"),
        ("render", "the environment failed: ZeroDivisionError: division by zero"),
        ("hint", "the environment failed: KeyError: 'best'"),
    ],
)
def test_a_failing_environment_ends_its_own_trajectory_with_the_error(chat, how, error):
    env = Failing(how)
    env.reset(options={"room": ROOM})
    episode = Episode(env, RunConfig(), chat, Trajectory(id="t", group=0, member=0), 4096)
    turn = respond(episode, tiny.answer("Left", "Right", *["Left"] * (how != "render")))
    assert episode.ended
    if how != "render":
        assert [action.status for action in turn.actions] == ["executed", "ignored", "ignored"]
        assert turn.reward == pytest.approx(-0.1)
    closing = episode.trajectory.finished()
    assert (closing.end, closing.error) == ("truncated", error)
    assert closing.model_dump_json()


def plans(config, sizes):
    return [
        GroupPlan(
            group=group,
            seed=40 + group,
            members=tuple(f"g{group}n{member}" for member in range(size)),
            dynamics_seeds=tuple(range(100 * group, 100 * group + size)),
            sampling_seeds=tuple(range(1000 * group, 1000 * group + size)),
        )
        for group, size in enumerate(sizes)
    ]


def train_request(config, sizes, *, iteration=1, temperature=1.0):
    return RolloutRequest(plans(config, sizes), iteration=iteration, split="train", temperature=temperature)


def player(config, chat, sampler, emitted, *, context=2048, **extra):
    return RolloutRunner(
        config=config, chat=chat, sampler=sampler, context=context, emit=lambda *events: emitted.extend(events), **extra
    )


def test_one_failing_environment_does_not_stop_the_others(chat, monkeypatch):
    config = RunConfig()
    made = []

    def make(name, settings):
        made.append(Failing("step" if len(made) == 1 else "nothing"))
        return made[-1]

    monkeypatch.setattr("envs.registry.make", make)
    script = [[tiny.sampled(chat, tiny.answer("Left", "Right")) for _ in range(5)] for _ in range(3)]
    emitted = []
    played = player(config, chat, ScriptedSampler(script), emitted).play(train_request(config, [3]))
    assert [t.end for t in played] == ["actions", "truncated", "actions"]
    assert [t.error is None for t in played] == [True, False, True]


def test_events_are_emitted_in_order(policy, chat):
    config = tiny.config("pocket")
    emitted = []
    sampler = TransformersSampler(policy.model, chat.eos_id, policy.pad_id)
    progress = []
    played = player(config, chat, sampler, emitted, progress=lambda done, tokens: progress.append((done, tokens))).play(
        train_request(config, [3, 2], iteration=7)
    )
    assert [t.id for t in played] == ["g0n0", "g0n1", "g0n2", "g1n0", "g1n1"]
    assert [type(event) for event in emitted[:2]] == [GroupStarted, GroupStarted]
    for started in emitted[:2]:
        assert (started.iteration, started.split, started.suite) == (7, "train", None)
        assert started.prompt == opening_message(envs.spec("Sokoban"), config.rollout)
    by_trajectory = defaultdict(list)
    for event in emitted[2:]:
        by_trajectory[event.trajectory].append(event)
    for one in played:
        *turns, closing = by_trajectory[one.id]
        assert [turn.turn for turn in turns] == list(range(len(one.turns)))
        assert all(isinstance(turn, Turn) for turn in turns)
        assert isinstance(closing, TrajectoryFinished)
        assert closing.turns == len(turns)
        assert closing.total_reward == pytest.approx(one.total_reward)
    assert progress[-1] == (5, sum(t.tokens for t in played))


def test_sampling_and_environments_are_timed_apart(chat, monkeypatch):
    """Each response takes three seconds, and each emission of events half a second."""
    now = [100.0]
    monkeypatch.setattr("trainer.rollout.runner.time.monotonic", lambda: now[0])

    class Slow(ScriptedSampler):
        def session(self, *arguments):
            session = super().session(*arguments)
            return SimpleNamespace(generate=lambda prompts: wait(session.generate(prompts)), append=session.append)

    def wait(responses):
        for response in responses:
            now[0] += 3
            yield response

    def emit(*events):
        now[0] += 0.5

    work = []
    script = [[tiny.sampled(chat, tiny.answer("Left"))] * 5 for _ in range(3)]
    runner = RolloutRunner(config=RunConfig(), chat=chat, sampler=Slow(script), context=2048, emit=emit)
    runner.on_work = lambda kind, began, ended: work.append((kind, began, ended))
    played = runner.play(train_request(RunConfig(), [2, 1]))
    turns = sum(len(one.turns) for one in played)
    sums = {name: sum(ended - began for kind, began, ended in work if kind == name) for name, _, _ in work}
    assert sums == {"environment": 0.5 * (2 + turns), "sampling": 3.0 * turns}
    assert (work[0][1], work[-1][2]) == (100.0, now[0])
    assert all(one[2] == other[1] for one, other in pairwise(work))


def test_trajectories_of_a_group_share_the_start_but_not_the_slips(chat):
    config = RunConfig.model_validate({"environment": {"name": "FrozenLake"}})
    script = [[tiny.sampled(chat, tiny.answer("Left", "Up"))] * 5 for _ in range(24)]
    emitted = []
    played = player(config, chat, ScriptedSampler(script), emitted).play(train_request(config, [12, 12]))
    for group in range(2):
        members = [t for t in played if t.group == group]
        assert len({t.turns[0].state for t in members}) == 1
        assert len({str(t.turns[0].actions[-1].board) for t in members}) > 1
    assert played[0].turns[0].state != played[12].turns[0].state


@given(st.integers(0, 8))
def test_a_stop_interrupts_between_turns_and_closes_open_trajectories(chat, after):
    config = RunConfig()
    emitted = []

    def stop():
        return sum(isinstance(event, Turn) for event in emitted) > after

    script = [[tiny.sampled(chat, tiny.answer("Left", "Right"))] * 5 for _ in range(2)]
    with pytest.raises(Interrupted):
        player(config, chat, ScriptedSampler(script), emitted, stop=stop).play(train_request(config, [2]))
    assert sum(isinstance(event, Turn) for event in emitted) == after + 1
    closings = [event for event in emitted if isinstance(event, TrajectoryFinished)]
    assert sorted(event.trajectory for event in closings) == ["g0n0", "g0n1"]
    assert {event.end for event in closings} <= {"interrupted", "actions"}
    assert sum(event.turns for event in closings) == after + 1


@given(st.lists(st.text(max_size=30), min_size=5, max_size=5), st.sampled_from(["Sokoban", "FrozenLake", "Bandit"]))
def test_any_text_is_a_turn(chat, texts, name):
    episode = tiny.episode(chat, RunConfig.model_validate({"environment": {"name": name}}))
    for text in texts:
        if episode.ended:
            break
        turn = respond(episode, text)
        assert turn.format_valid == ("format" not in turn.terms)
        assert turn.format_valid or turn.problem
    assert episode.trajectory.finished().model_dump_json()
