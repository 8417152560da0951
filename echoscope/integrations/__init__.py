"""Callbacks and loggers of other trainers. Each module imports its trainer's library only when it is imported itself.

| trainer | module |
| --- | --- |
| transformers' `Trainer`, and TRL's trainers, which inherit from it | `transformers_trainer` |
| TRL's GRPO, RLOO and similar: also their samples, by their reward functions | `trl_rewards` |
| verl | `verl_tracking`, and for its processes of Ray `verl_plugin` |
| prime-rl, and rollouts of verifiers' environments | `verifiers_rollouts` |
"""
