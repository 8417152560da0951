"""Rollouts of a run: training groups and evaluation suites, streamed while sampled and recorded token by token."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from trainer.algorithms.group_filter import group_stats
from trainer.config.run import RunConfig
from trainer.diagnostics import first_contact
from trainer.evaluation import suite_runner
from trainer.evaluation.suites import Suite
from trainer.journal.events import GroupsReplaced
from trainer.learner.token_recorder import TokenRecorder
from trainer.loops.session import RunSession
from trainer.loops.stages.rollouts_ahead import RolloutsAhead
from trainer.policy.chat_format import ChatFormat
from trainer.policy.pocket import is_pocket
from trainer.rollout.environment_mix import get_shares, plan_groups, train_plans
from trainer.rollout.prompts import described_format
from trainer.rollout.rollout_pool import RolloutPool, RolloutsAheadPool, WeightSource
from trainer.rollout.runner import EnvironmentsFailedError, GroupPlan, RolloutRequest
from trainer.rollout.trajectory import Trajectory

RECENT = 8
"""Earlier iterations whose initial states should not repeat."""


def uninformative(plans: Sequence[GroupPlan], trajectories: Iterable[Trajectory]) -> list[GroupPlan]:
    """Return the plans of groups in which all completed trajectories have equal rewards."""
    rewards: dict[int, list[float]] = {}
    for trajectory in trajectories:
        if not trajectory.failed:
            rewards.setdefault(trajectory.group, []).append(trajectory.total_reward)
    return [plan for plan in plans if plan.group not in rewards or not group_stats(rewards[plan.group]).informative]


class RolloutStage:
    """Plays the rollouts of a loop with a pool that is closed with the session.

    Attributes:
        ahead: plays later iterations during updates; None: rollouts and updates take turns.
        resamples: whether groups without a signal are replaced (dynamic sampling).
        rounds: number of rounds in the last training iteration.
        replaced: groups of the last training iteration that were replaced.
        repeated_share: share of the last training iteration's groups whose initial state was played before, in the
            iteration or one of the RECENT before it.
    """

    def __init__(self, session: RunSession, pool: RolloutPool, chat: ChatFormat) -> None:
        self.session, self.pool = session, pool
        self.recorder = TokenRecorder(session.config.journal, chat)
        ahead = session.config.rollout.max_staleness > 0 and session.config.kind == "train"
        self.ahead = RolloutsAhead(session, pool) if ahead and isinstance(pool, RolloutsAheadPool) else None
        self.resamples = session.config.algorithm.dynamic_sampling_rounds > 1
        self.rounds = 0
        self.replaced: set[int] = set()
        self.repeated_share = 0.0
        self._recent: deque[set[tuple[int, int]]] = deque(maxlen=RECENT)  # environments and seeds, by iteration
        self._is_first = (
            session.progress.tokens == 0 and session.progress.first_success is None and session.config.kind != "sft"
        ) and not is_pocket(chat.tokenizer)
        session.on_close(pool.close)

    def play(self, iteration: int) -> list[Trajectory]:
        """Return the trajectories of a training iteration, ordered by group.

        With dynamic sampling, groups with equal rewards are replaced by new ones of the same environment, numbered from
        the last group on, until there are none or the rounds are used up. All trajectories are returned; a group with
        fewer than two unbroken ones is replaced, too. All seeds follow from the numbers of iteration and group, so that
        an interrupted iteration is repeated identically.

        Source: DAPO, arXiv 2503.14476, section 3.2; its published code draws whole batches and drops the surplus.
        """
        config, shares = self.session.config, get_shares(self.session.config)
        if self.ahead is not None:
            self.rounds, total = 1, config.rollout.trajectories
            self._note_seeds(train_plans(config, shares, iteration))
            played = self.ahead.take(iteration, self.session.reporter.watch("rollout", iteration, total))
            self._look_at_first(played, [share.config for share in shares])
            return played
        self.replaced.clear()
        rounds = config.algorithm.dynamic_sampling_rounds
        plans = train_plans(config, shares, iteration)
        self._note_seeds(plans)
        played = self._play_round(plans, iteration, [])
        self._look_at_first(played, [share.config for share in shares])
        self.rounds = 1
        groups = len(plans)
        for number in range(2, rounds + 1):
            replaced = uninformative(plans, played)
            if not replaced:
                break
            missing = [plan.group for plan in replaced]
            self.session.journal.write(
                GroupsReplaced(
                    iteration=iteration,
                    round_number=number,
                    rounds=rounds,
                    replaced=missing,
                    informative=config.rollout.groups - len(missing),
                )
            )
            self.session.check_stop()
            plans = plan_groups(config, shares, iteration, [plan.environment for plan in replaced], first=groups)
            groups += len(plans)
            self.replaced.update(missing)
            self.rounds = number
            try:
                played += self._play_round(plans, iteration, played)
            except EnvironmentsFailedError as error:  # earlier rounds did not fail
                played += error.trajectories
                break
        return played

    def _note_seeds(self, plans: Sequence[GroupPlan]) -> None:
        """Measure how many of an iteration's initial states were played before."""
        seeds = [(plan.environment, plan.seed) for plan in plans]
        new = set(seeds).difference(*self._recent)
        self.repeated_share = 1 - len(new) / len(seeds)
        self._recent.append(set(seeds))

    def _play_round(
        self, plans: Sequence[GroupPlan], iteration: int, earlier: Sequence[Trajectory]
    ) -> list[Trajectory]:
        """Play these groups after the groups of earlier rounds."""
        total = len(earlier) + sum(len(plan.members) for plan in plans)
        progress = self.session.reporter.watch("rollout", iteration, total, played=len(earlier))
        temperature = self.session.config.rollout.temperature
        request = RolloutRequest(plans, iteration, split="train", temperature=temperature)
        return self.pool.play(request, progress)

    def play_suite(self, suite: Suite, iteration: int, part: tuple[int, int] = (0, 1)) -> list[Trajectory]:
        """Play an evaluation suite and record the tokens.

        Args:
            part: number of the suite among the suites that are played now, from 0, and their number.
        """
        plans = suite_runner.group_plans(suite.config, iteration, suite.number)
        total = sum(len(plan.members) for plan in plans)
        progress = self.session.reporter.watch("evaluate", iteration, total, part)
        request = RolloutRequest(
            plans, iteration, split="eval", temperature=suite.config.evaluation.temperature, suite=suite.name
        )
        trajectories = self.pool.play(request, progress)
        self.session.journal.write(*self.recorder.evaluated(trajectories))
        self._look_at_first(trajectories, [suite.config])
        return trajectories

    def _look_at_first(self, trajectories: Sequence[Trajectory], configs: Sequence[RunConfig]) -> None:
        """Write a notice if the first responses of a language model show that it cannot use its prompt yet.

        Args:
            configs: settings by number of the environment.
        """
        if not self._is_first:
            return
        self._is_first = False
        lines = [described_format(config) for config in configs]
        contact = first_contact.measure((trajectory, lines[trajectory.environment]) for trajectory in trajectories)
        if contact is None:
            return
        config = self.session.config
        rollout, warms_up = config.rollout, config.kind == "train" and config.sft.warmup_steps > 0
        notice = first_contact.first_contact_notice(contact, line=rollout.format_line, warms_up=warms_up)
        if notice:
            (self.session.inform if warms_up else self.session.warn)(notice)

    def complete(self, trajectories: list[Trajectory]) -> list[Trajectory]:
        """Drop trajectories with a failed environment. A run's first failure is a warning, later ones only a metric."""
        failed = [trajectory for trajectory in trajectories if trajectory.failed]
        if failed:
            message = (
                f"{len(failed)} of {len(trajectories)} trajectories failed and are excluded from metrics and "
                f"training; the first one because {failed[0].error}"
            )
            self.session.warn(message, once="failed environments")
        return [trajectory for trajectory in trajectories if not trajectory.failed]

    def usage(self) -> dict[str, float]:
        """Return cluster/*: metrics of the actors since the last call; idle shares only if they play during updates."""
        if self.ahead is not None:
            return self.ahead.pool.usage()
        usage = self.pool.usage() if isinstance(self.pool, RolloutsAheadPool) else {}
        return {name: value for name, value in usage.items() if name == "cluster/slowest_actor"}

    def update_weights(self, learners: WeightSource) -> None:
        """Play with the learners' new weights from now on."""
        self.pool.update_weights(learners)
