"""Contents of the launch page: the form, the effects of its settings, and its exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.utils.http import urlencode

import envs
from trainer.config.run import POCKET
from webapp.core import ids
from webapp.pages.runs.launch_form import MAX_LAUNCH_KEY, LaunchForm
from webapp.runs.launch import catalogue, experiment, launch_exports
from webapp.runs.launch.form import sentence
from webapp.runs.model_cards import cards
from webapp.runs.models import Run
from webapp.runs.queue import device_classes
from webapp.teams.access import role_in_team
from webapp.teams.models import Membership

OPTION_LABELS = {
    "team": "Team",
    "queue": "Device",
    "gpus": "GPUs",
    "arms": "The algorithms",
    "seeds": "Seeds",
    "group": "Group name",
}
"""Fields of the form that are not settings of the run."""


@dataclass(frozen=True)
class LaunchPage:
    """A launch form as its templates show it. Each part is computed when a template reads it.

    Attributes:
        site: address of the site, without a slash at its end.
    """

    form: LaunchForm
    site: str

    seed_choices = range(1, experiment.MAX_SEEDS + 1)
    visibilities = Run.Visibility.choices
    priorities = Run.Priority.options()

    @cached_property
    def problems(self) -> list[tuple[str, str]]:
        """Pairs (element id, sentence) of errors; the id is "" for a field that the form does not show."""
        return [self._problem(name, text) for name, text in self.form.plan.errors.items()]

    def _problem(self, name: str, text: str) -> tuple[str, str]:
        setting = self.form.layout.settings.get(name)
        label = setting.label if setting else OPTION_LABELS.get(name, name)
        slot = self.form.layout.slot(name) if setting or name in OPTION_LABELS else ""
        return slot, sentence(name, label, text) if label else text

    @property
    def state(self) -> dict[str, dict[str, str]]:
        """Errors and reasons by field, for the page's script."""
        layout = self.form.layout
        return {
            "errors": {layout.slot(name): text for name, text in self.form.plan.errors.items()},
            "reasons": {setting.name: setting.reason for setting in layout.settings.values() if setting.reason},
        }

    @property
    def button(self) -> str:
        """Text of the button that launches."""
        action = "Download and launch" if self.form.plan.needs_download else "Launch"
        runs = len(self.form.plan.runs)
        return action if runs < 2 else f"{action} {runs} runs"

    @property
    def as_yaml(self) -> str:
        """The configuration as YAML; empty while it is invalid."""
        return launch_exports.as_yaml(self.form.plan.config) if self.form.plan.config else ""

    @property
    def as_curl(self) -> str:
        """The request as an API call; empty while the configuration is invalid."""
        if self.form.plan.config is None:
            return ""
        return launch_exports.as_curl(self.site, self.form.plan.request, name_team=len(self.form.start.teams) > 1)

    @cached_property
    def key(self) -> str:
        """Launch key: a form that is posted twice launches once."""
        return self.form.start.text("launch_key")[:MAX_LAUNCH_KEY] or ids.token()

    @property
    def may_prefer(self) -> bool:
        """True if the user may give high priority in one of the teams."""
        start = self.form.start
        return any(role_in_team(start.user, team.pk) == Membership.Role.ADMIN for team in start.teams)

    @property
    def priority(self) -> str:
        return self.form.plan.request.scheduling.priority.name.lower()

    @property
    def queue(self) -> str:
        return self.form.start.text("queue", self.form.start.scheduling.queue)

    @property
    def gpus(self) -> str:
        return self.form.start.text("gpus", self.form.start.scheduling.gpus)

    @property
    def classes(self) -> Sequence[str]:
        """Device classes to choose from, with the chosen one, which may be without a worker."""
        chosen = {self.form.plan.request.scheduling.queue} - {""}
        return device_classes.class_choices(self.form.plan.capacity.workers.keys() | chosen)

    @property
    def seeds(self) -> str:
        return self.form.start.text("seeds", 1)

    @property
    def group_name(self) -> str:
        return self.form.start.text("group")

    @cached_property
    def arms(self) -> list[tuple[experiment.ExperimentArm, bool]]:
        """Pairs (arm, True if it is checked); empty if the source of the form no longer matches its preset."""
        own_arm = experiment.own_arm(self.form.start.config, self.form.start.preset)
        if own_arm is None:
            return []
        checked = self.form.plan.request.arms or [own_arm.key]
        return [(arm, arm.key in checked) for arm in experiment.get_arms(self.form.start.preset)]

    @property
    def configured_model(self) -> str:
        """The setting `policy.model`."""
        return str(self.form.settings.data["policy"].get("model") or "")

    @cached_property
    def model_cards(self) -> list[cards.ModelCard]:
        """Cards of the models, with estimates for the run of the form's source."""
        base = self.form.start.config
        if not base.hosted.url:
            model = self.configured_model or POCKET
            base = base.model_copy(update={"policy": base.policy.model_copy(update={"model": model})})
        return cards.cards(self.form.start.user, base, self.form.start.preset)

    @property
    def model(self) -> str:
        """Value of the chosen card; empty for a model without a card."""
        model = self.configured_model
        return model if any(card.value == model for card in self.model_cards) else ""

    @cached_property
    def far_models(self) -> list[cards.ModelCard]:
        """Cards of models that fit on no live worker."""
        return [card for card in self.model_cards if card.out_of_reach and card.value != self.configured_model]

    @property
    def polling(self) -> Mapping[str, object]:
        return cards.polling(self.model_cards)

    @property
    def environment(self) -> str:
        """Name of the environment."""
        return str(self.form.settings.data["environment"]["name"])

    @cached_property
    def variants(self) -> Mapping[str, str]:
        """Variants of the environment, if it is an adapter, with a description of each."""
        return envs.variants(self.environment)

    @property
    def variant(self) -> str:
        """The variant of an adapter; empty for other environments."""
        chosen = str(self.form.settings.data["environment"]["settings"].get("id") or "")
        if chosen or not self.variants:
            return chosen
        field = envs.settings_model(self.environment).model_fields.get("id")
        return str(field.default) if field else ""

    @property
    def environment_query(self) -> str:
        """The environment for the addresses of other presets, unless it is the preset's."""
        if self.environment == self.preset.environment:
            return ""
        variant = self.form.settings.data["environment"]["settings"].get("id")
        return "&" + urlencode({"environment": self.environment} | ({"id": str(variant)} if variant else {}))

    @property
    def preset(self) -> catalogue.PresetChoice:
        """The preset in the catalogue."""
        return catalogue.get_preset(self.form.start.preset)

    @property
    def environment_cards(self) -> Sequence[catalogue.EnvironmentCard]:
        return catalogue.environment_cards(self.preset)

    @property
    def other_environments(self) -> Sequence[str]:
        return catalogue.other_environments()

    @property
    def algorithms(self) -> Sequence[catalogue.PresetChoice]:
        return catalogue.arms(self.preset)

    @property
    def policies(self) -> Sequence[catalogue.PresetChoice]:
        return catalogue.policies(self.preset)
