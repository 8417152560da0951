"""Limits of studies with a pocket policy, by study; others have only the limits of the scale."""

from __future__ import annotations

from trainer.studies.study import Scale

POCKET: dict[str, str] = {
    "figure-5": "The arms PPO and GRPO differ in the estimator and in the division by the group's spread: where GRPO "
    "collapses and GRPO that is not divided does not, the division is the cause.",
    "echo-trap": "The trap exists in groups of four and eight; with the paper's groups of 16 the same run learns "
    "(docs/echo-trap.md), so that this is not the collapse that the paper describes.",
    "figure-10": "On the lake the learning rate decays over the iterations of a run, so that arms with fewer, larger "
    "iterations have a higher mean rate over the same updates: 2.5e-4 with ten batches a rollout, 2.05e-4 with one.",
    "figure-11": "Its thoughts are the short lines of its warm-up, which name what stands where and the next moves: "
    "their length says little about reasoning.",
    "table-4": "This policy knows no words: it copies the names of the arms and has no idea of their meaning, so that "
    "a thought cannot help it as it helps a language model. Each arm has one warm-up for all seeds, and that without "
    "starts lower (“before”). The claims are therefore about the gain, from these two policies: warm-ups of "
    "other seeds differ by some 10 points, which no number of seeds of the training can tell.",
    "appendix-c": "Both arms start from a policy that has imitated a solver already: SFT continues its warm-up.",
    "appendix-d": "Adapters of rank 64 are hardly smaller than the matrices of this policy, and most of the memory is "
    "not for weights: half the memory cannot be expected. The rate of all weights "
    "is 200 times the paper's already: a loss at ten times that rate says nothing about adapters at lower ones.",
}


def limits(study: str, scale: Scale) -> str:
    """Describe the limits of the study at that scale; empty if none are known."""
    return POCKET.get(study, "") if scale == "pocket" else ""
