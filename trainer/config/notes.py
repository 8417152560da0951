"""Notes on valid configurations that are probably a mistake: for the trainer's output and the launch form."""

from __future__ import annotations

from trainer.config.imitation import COURSE_ENVIRONMENTS
from trainer.config.run import POCKET, RunConfig


def notes(config: RunConfig) -> list[str]:
    """Return notes on the configuration; sentences without a full stop."""
    return [note for note in (ignored_filter(config), unknown_environments(config)) if note]


def ignored_filter(config: RunConfig) -> str:
    """Note that the group filter, which users change for an ablation, has no effect; empty if it has one."""
    name, algorithm = "algorithm.group_filter_keep", config.algorithm
    keep = algorithm.group_filter_keep
    if config.kind != "train":
        return ""
    reason = config.without_effect(config.model_dump()).get(name)
    if reason and keep < 1:
        return f"{name} = {keep:g} is ignored: {reason}"
    if algorithm.group_filter != "none" and not algorithm.filters_groups:
        return (
            f"group filter “{algorithm.group_filter}” with {name} = 1 keeps all groups: the same as “none”. "
            "StarPO-S keeps 0.25"
        )
    return ""


def unknown_environments(config: RunConfig) -> str:
    """Note that the pocket policy was not warmed up on an environment of a training run; empty if it was."""
    unknown = config.warmup.unknown_among(config.environment.names)
    if not unknown or config.kind != "train" or config.policy.model != POCKET or config.hosted.url:
        return ""
    courses = [course for course, taught in COURSE_ENVIRONMENTS.items() if unknown[0] in taught]
    advice = (
        f"warmup.course {courses[0]} teaches it"
        if courses
        else (
            "if the environment has a solver, first teach the policy its rules in a run of kind sft and train that "
            "checkpoint (policy.model); or choose a larger language model"
        )
    )
    return (
        f"the pocket policy has never seen {' and '.join(unknown)} and will not learn it from rare successes: {advice}"
    )
