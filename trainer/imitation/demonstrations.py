"""Demonstrations: a solver's play, verbalised as thoughts and actions, with deliberate mistakes for the warm-up.

Any environment with hints from a solver can be demonstrated.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import envs
from envs.demonstrators import Demonstrator, TurnPlan, find_demonstrator
from envs.tools.call_formats import parse_calls, render_calls
from envs.tools.calls import readable_call
from trainer.config.run import RunConfig
from trainer.engines.sampler import SampledResponse
from trainer.policy.chat_format import ANSWER, ANSWER_END, THINK_END, ChatFormat
from trainer.rollout.episode import Episode
from trainer.rollout.prompts import opening_message, state_message
from trainer.rollout.response_parser import ACTION_SEPARATOR
from trainer.rollout.trajectory import Trajectory
from trainer.seeds import Purpose, derive


def response_text(plan: TurnPlan, chat: ChatFormat) -> str:
    """Format the plan as a sampled response after the forced tag; without its thought if the format has none.

    Calls use the format of the model's family if `chat` has the environment's tools.
    """
    thought = f"{plan.thought}{THINK_END}" if chat.think else ""
    if chat.tools:
        tools = {tool.name: tool for tool in chat.tools}
        calls = [call for action in plan.actions if (call := readable_call(action, tools)) is not None]
        if calls:
            return f"{thought}{render_calls(calls, chat.call_format)}"
    opening = "" if chat.forced.endswith(ANSWER) else ANSWER
    return f"{thought}{opening}{f' {ACTION_SEPARATOR} '.join(plan.actions)}{ANSWER_END}"


def end_of_response(text: str, chat: ChatFormat) -> int:
    """Return the token that ends a response: some templates end calls and answers with different tokens."""
    called = bool(chat.tools) and bool(parse_calls(text, chat.call_format))
    return chat.end_id("tool" if called else "user")


@dataclass(frozen=True)
class Demonstration:
    """A demonstrated trajectory and the turns to imitate: turns with mistakes only show what to recover from.

    `task` is the text before the first state.
    """

    trajectory: Trajectory
    taught: frozenset[int]
    task: str = ""


def demonstrate(
    config: RunConfig,
    chat: ChatFormat,
    seed: int,
    *,
    noise: float,
    mistake_rate: float,
    context: int,
    demonstrator: Demonstrator | None = None,
) -> Demonstration:
    """Let the demonstrator play one episode, which ends early if the solver has no advice.

    Args:
        config: environment and rollout budgets.
        chat: encodes the turns.
        seed: seed of the initial state, the dynamics and the mistakes.
        noise: share of actions replaced by random ones in *taught* turns (the answer then contradicts the thought).
            Random actions in free text are well formed, too.
        mistake_rate: share of turns with random actions that are played but not taught.
        context: maximum length of the dialogue in tokens.
        demonstrator: source of good play and mistakes; None: the environment's demonstrator.
    """
    rng = np.random.default_rng(seed)
    env = envs.make(config.environment.name, config.environment.settings)
    env.reset(seed=derive(seed, 0), options={"dynamics_seed": derive(seed, 1)})
    trajectory = Trajectory(id=f"demo-{seed}", group=0, member=0)
    episode = Episode(env, config, chat, trajectory, context)
    player = demonstrator or find_demonstrator(env)
    taught = set()
    while not episode.ended:
        episode.prompt()
        plan = player.plan(env, config.rollout.max_actions_per_turn)
        if not plan.actions:
            break
        mistaken = rng.random() < mistake_rate
        share = 0.7 if mistaken else noise
        actions = [player.mistake(env, rng) if rng.random() < share else action for action in plan.actions]
        text = response_text(TurnPlan(plan.thought, actions), episode.chat)
        ids = chat.tokenizer.encode(text, add_special_tokens=False)
        ids.append(end_of_response(text, episode.chat))
        if not mistaken:
            taught.add(len(trajectory.turns))
        episode.receive(SampledResponse(ids, [0.0] * len(ids), [0.0] * len(ids), True))
        if trajectory.lost_at is not None:
            break
    return Demonstration(trajectory, frozenset(taught), episode.task)


def single_turn(demonstration: Demonstration, turn: int) -> Demonstration:
    """Return one taught turn with only the prompt right before it, as a context window of one turn shows it."""
    trajectory = demonstration.trajectory
    sequence = next(sequence for sequence in trajectory.sequences() if turn in sequence.turn_of)
    start = sequence.turn_of.index(turn)
    response = trajectory.response(turn)
    zeros = [0.0] * len(response)
    alone = Trajectory(id=trajectory.id, group=trajectory.group, member=trajectory.member)
    alone.append_prompt(sequence.ids[:start])
    alone.append_response(response, zeros, zeros, 0)
    return Demonstration(alone, frozenset({0}), demonstration.task)


def single_state_demonstration(
    config: RunConfig,
    chat: ChatFormat,
    seed: int,
    demonstrator: Demonstrator | None = None,
    *,
    with_task: bool = False,
) -> Demonstration:
    """Demonstrate a single state, reached by a few random actions, with the demonstrator's thought and actions.

    The prompt is only the state, unless `with_task` puts the task before it, so that many states are learnt at the cost
    of one dialogue. Without single states a policy of this size learns to write the sentences long before it learns to
    read the board.
    """
    rng = np.random.default_rng(seed)
    rollout = config.rollout
    env = envs.make(config.environment.name, config.environment.settings)
    env.reset(seed=derive(seed, 0), options={"dynamics_seed": derive(seed, 1)})
    player = demonstrator or find_demonstrator(env)
    last_reward: float | None = None
    random_steps = int(rng.integers(0, 5)) if rollout.max_actions > 1 else 0
    for _ in range(random_steps):
        ahead = copy.deepcopy(env)
        _, reward, terminated, truncated, _ = ahead.step(player.mistake(env, rng))
        hint = ahead.hint()
        if terminated or truncated or (hint is not None and hint.solvable == "no"):
            break
        env, last_reward = ahead, float(reward)
    plan = player.plan(env, rollout.max_actions_per_turn)
    state = state_message(
        env.render(),
        turn=int(rng.integers(1, rollout.max_turns)) if random_steps and rollout.max_turns > 1 else 0,
        actions_left=int(rng.integers(1, rollout.max_actions + 1)),
        last_reward=last_reward,
    )
    chat = chat.with_tools(env.env_spec.tools)
    text = response_text(plan, chat)
    ids = [*chat.tokenizer.encode(text, add_special_tokens=False), end_of_response(text, chat)]
    trajectory = Trajectory(id=f"lesson-{seed}", group=0, member=0)
    task = opening_message(env.env_spec, rollout, config.environment, chat) if with_task else ""
    trajectory.append_prompt(chat.opening(task + state))
    trajectory.append_response(ids, [0.0] * len(ids), [0.0] * len(ids), 0)
    return Demonstration(trajectory, frozenset({0} if plan.actions else ()))


DemonstrationSource = Callable[[RunConfig, int], Demonstration]


def demonstration_stream(
    tasks: list[tuple[RunConfig, float]], seed: int, source: DemonstrationSource
) -> Iterator[Demonstration]:
    """Yield endless demonstrations of several tasks in the given shares; the n-th depends only on the seed."""
    shares = np.cumsum([share for _, share in tasks])
    number = 0
    while True:
        demonstration_seed = derive(seed, Purpose.DEMONSTRATION, number)
        number += 1
        task = int(
            np.searchsorted(shares, np.random.default_rng(demonstration_seed).random() * shares[-1], side="right")
        )
        demonstration = source(tasks[task][0], demonstration_seed)
        if demonstration.taught:
            yield demonstration
