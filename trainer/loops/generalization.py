"""Generalisation matrix: several policies evaluated on the same suites.

A row is an evaluation run with a separate folder and journal: it can be imported, and is resumed suite by suite.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from trainer.config.files import load_stored
from trainer.config.run import RunConfig
from trainer.evaluation.suites import get_suites
from trainer.journal.events import EvaluatedPolicy, Generalization, GeneralizationCell, RunFinished, RunStarted
from trainer.journal.protocol import CONFIG_FILE, JOURNAL_FILE
from trainer.journal.reader import count_attempts
from trainer.journal.writer import Journal
from trainer.loops import run_factory
from trainer.loops.evaluate import evaluation_config, missing, results
from trainer.loops.reporter import Reporter, versions
from trainer.loops.stages.checkpoints import Progress
from trainer.policy.load import describe_device, pick_device

ROWS, TABLE = "policies", "generalization.md"
_NAME = re.compile(r"[\w.+-]{1,60}")


def find_run_settings(model: str) -> RunConfig | None:
    """Return the settings of a policy's run, if the policy is a run's folder or one of its checkpoints."""
    folder = Path(model)
    for candidate in (folder, folder.parent.parent):
        file = candidate / CONFIG_FILE
        if file.exists() and (candidate / JOURNAL_FILE).exists():
            return load_stored(file)
    return None


def rows(policies: Sequence[str]) -> list[EvaluatedPolicy]:
    """Parse policies from the command line: each is a source, or name=source.

    Raises:
        ValueError: a name is invalid or repeated.
    """
    policy_rows: list[EvaluatedPolicy] = []
    for text in policies:
        name, named, source = text.partition("=")
        if not named:
            name, source = Path(text).name, text
        if not _NAME.fullmatch(name) or name.startswith("."):
            raise ValueError(f"{name!r} cannot name a policy: letters, digits and . + - _ only; give name=source")
        if any(name == row.name for row in policy_rows):
            raise ValueError(f"two policies have the name {name!r}: give them names, as in first={source}")
        settings = find_run_settings(source)
        trained_on = " + ".join(settings.environment.names) if settings else None
        policy_rows.append(EvaluatedPolicy(name=name, source=source, trained_on=trained_on))
    return policy_rows


class GeneralizationMatrix:
    """Evaluation of all policies on all suites, in one folder.

    Args:
        base: settings of the evaluation and of the dialogue, the same for every policy.
        policies: the rows.
        on: the columns, named as in `evaluation.suites`.
        folder: folder of rows and results; completed suites are not played again.
        cache: folder of warmed-up policies.
        stop: polled between turns; once it returns True the matrix ends and can be resumed.
    Raises:
        ValueError: a suite is unknown or repeated.
    """

    def __init__(
        self,
        base: RunConfig,
        policies: Sequence[EvaluatedPolicy],
        on: Sequence[str],
        folder: Path,
        cache: Path,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.policies, self.folder, self.cache, self.stop = policies, folder, cache, stop
        self.base, self.on = base, list(on)
        self.configs = {row.name: evaluation_config(base, row.source, on) for row in policies}

    def play(self) -> tuple[RunFinished, Generalization | None]:
        """Play the missing suites. Returns the closing event and, unless it was stopped, the result."""
        attempt = 1 + count_attempts(self.folder)
        journal = Journal(self.folder)
        reporter = Reporter(journal, Progress(), 0)
        try:
            journal.write(self._started(attempt))
            for number, row in enumerate(self.policies):
                reporter.phase("evaluate", number, len(self.policies), unit="policies")
                if not self._play_row(row):
                    end = reporter.finished("interrupted", f"Stopped at policy {row.name}; resume continues there.")
                    journal.write(end)
                    return end, None
            event = self._result()
            (self.folder / TABLE).write_text(table(event), encoding="utf-8")
            end = reporter.finished("completed", f"All {len(event.cells)} cells are played.")
            journal.write(event, end)
        except Exception as error:
            journal.write(reporter.finished("error", str(error) or type(error).__name__))
            raise
        else:
            return end, event
        finally:
            journal.close()

    def _place(self, row: EvaluatedPolicy) -> Path:
        return self.folder / ROWS / row.name

    def _play_row(self, row: EvaluatedPolicy) -> bool:
        """Play the missing suites of a policy. Returns whether all are completed."""
        config = self.configs[row.name]
        if not missing(self._place(row), config):
            return True
        return run_factory.run(config, self._place(row), self.cache, self.stop).reason == "completed"

    def _started(self, attempt: int) -> RunStarted:
        first = self.configs[self.policies[0].name]
        return RunStarted(
            attempt=attempt,
            from_iteration=0,
            iterations=0,
            title=f"Generalisation: {len(self.policies)} policies on {', '.join(self.on)}",
            config=first.model_dump(mode="json"),
            device=describe_device(pick_device(self.base.policy.device)),
            parameters=0,
            versions=versions(),
        )

    def _result(self) -> Generalization:
        cells = []
        for row in self.policies:
            config = self.configs[row.name]
            evaluations = results(self._place(row), config)
            for suite in self._columns(config):
                evaluation = evaluations[suite]
                assert evaluation.mean_reward is not None, "only recorders may not know it"
                cells.append(
                    GeneralizationCell(
                        policy=row.name,
                        suite=suite,
                        prompts=evaluation.prompts,
                        samples=evaluation.samples,
                        success=evaluation.success,
                        success_low=evaluation.success_low,
                        success_high=evaluation.success_high,
                        pass_at=evaluation.pass_at,
                        mean_reward=evaluation.mean_reward,
                    )
                )
        return Generalization(
            policies=list(self.policies),
            suites=self._columns(self.configs[self.policies[0].name]),
            cells=cells,
        )

    def _columns(self, config: RunConfig) -> list[str]:
        """Return the names of the suites, in the requested order."""
        played = [suite.name for suite in get_suites(config)]
        return [*(text for text in self.on if text in played), *(name for name in played if name not in self.on)]


def table(event: Generalization) -> str:
    """Format the matrix in Markdown: success and its 95% interval; a policy's training environment is bold."""
    cells = {(cell.policy, cell.suite): cell for cell in event.cells}
    lines = [
        "| policy | trained on | " + " | ".join(event.suites) + " |",
        "| --- | --- |" + " ---: |" * len(event.suites),
    ]
    for policy in event.policies:
        texts = []
        for suite in event.suites:
            cell = cells[policy.name, suite]
            rate = f"{100 * cell.success:.1f}%"
            home = policy.trained_on is not None and suite in policy.trained_on.split(" + ")
            span = f"({100 * cell.success_low:.1f}–{100 * cell.success_high:.1f})"
            texts.append(f"{f'**{rate}**' if home else rate} {span}")
        lines.append(f"| {policy.name} | {policy.trained_on or 'not known'} | " + " | ".join(texts) + " |")
    prompts = {(cell.prompts, cell.samples) for cell in event.cells}
    sizes = " or ".join(f"{p} prompts" + (f" × {s} samples" if s > 1 else "") for p, s in sorted(prompts))
    lines += ["", f"Success on the same {sizes} for every policy, with the 95% Wilson interval."]
    return "\n".join(lines) + "\n"
