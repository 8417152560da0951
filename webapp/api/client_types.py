"""Generator of echoscope/models.py from the OpenAPI document. Run by `python manage.py export_client_types`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from webapp.api.root import api

WIDTH = 120
HEADER = '''"""Typed responses of a site. Generated from its OpenAPI document: `python manage.py export_client_types`.

Enumerations are plain strings here, and unknown fields are kept, so that a client works with newer sites.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from echoscope.answer import ENDED as ENDED
from echoscope.answer import Answer as Answer
from echoscope.answer import RunAnswer
'''


class Model(NamedTuple):
    """A class of the client. `base` is a component exported before it, or a class of echoscope.answer."""

    name: str
    base: str = "Answer"


MODELS = {
    "TeamOut": Model("Team"),
    "MembershipOut": Model("Membership", "TeamOut"),
    "Me": Model("Me"),
    "AuditEntryOut": Model("AuditEntry"),
    "UpdateProgressOut": Model("UpdateProgress"),
    "PhaseOut": Model("Phase"),
    "JournalOut": Model("Journal"),
    "ObservationImageOut": Model("ObservationImage"),
    "RunOut": Model("Run", "RunAnswer"),
    "WaitingOut": Model("Waiting"),
    "RunDetail": Model("RunDetail", "RunOut"),
    "SettingsChangeOut": Model("SettingsChange"),
    "GroupOut": Model("Group"),
    "MetricOut": Model("Metric"),
    "Bucket": Model("Point"),
    "AlarmOut": Model("Alarm"),
    "ConditionOut": Model("Condition"),
    "CheckpointOut": Model("Checkpoint"),
    "EvaluationOut": Model("Evaluation"),
    "EvaluatedPolicyOut": Model("EvaluatedPolicy"),
    "GeneralizationCellOut": Model("GeneralizationCell"),
    "GeneralizationOut": Model("Generalization"),
    "ComparedRunOut": Model("ComparedRun"),
    "DifferenceOut": Model("Difference"),
    "ComparisonOut": Model("Comparison"),
    "AttemptOut": Model("Attempt"),
    "PuzzleOut": Model("Puzzle"),
    "LostAt": Model("LostAt"),
    "TrajectoryOut": Model("Trajectory"),
    "MarkOut": Model("Mark"),
    "VerdictOut": Model("Verdict"),
    "TrajectoryDetail": Model("TrajectoryDetail"),
    "Change": Model("Change"),
    "Share": Model("SolvedShare"),
    "Branches": Model("Branches"),
    "TurnValue": Model("TurnValue"),
    "Values": Model("Values"),
    "TurnInfluence": Model("TurnInfluence"),
    "Influences": Model("Influences"),
    "BranchTurn": Model("BranchTurn"),
    "BranchOut": Model("Branch"),
    "QuestionOut": Model("Question"),
    "QuestionDetail": Model("QuestionDetail", "QuestionOut"),
    "Interval": Model("Interval"),
    "CorrectedAttempt": Model("CorrectedAttempt"),
    "Corrections": Model("Corrections"),
    "AttemptInfluence": Model("AttemptInfluence"),
    "Survey": Model("Survey"),
    "EvaluationQuestionOut": Model("EvaluationQuestion"),
    "TokenSegment": Model("TokenSegment"),
    "TokenState": Model("TokenState"),
    "TrajectoryTokensOut": Model("TrajectoryTokens", "TokenState"),
    "CommentOut": Model("Comment"),
    "AnnotationsOut": Model("Annotations"),
    "ShareOut": Model("Share"),
    "AlertRuleOut": Model("AlertRule"),
    "AlertRuleDetail": Model("AlertRuleDetail", "AlertRuleOut"),
    "DeliveryOut": Model("Delivery"),
    "ReportOut": Model("Report"),
    "ReportDetail": Model("ReportDetail", "ReportOut"),
    "StudyRunOut": Model("StudyRun"),
    "StudyArmOut": Model("StudyArm"),
    "StudyVerdictOut": Model("StudyVerdict"),
    "ReportedOut": Model("Reported"),
    "StudyOut": Model("Study"),
    "StudyDetail": Model("StudyDetail", "StudyOut"),
    "StudyControlled": Model("StudyControlled"),
    "EnvironmentOut": Model("Environment"),
    "EnvironmentDetail": Model("EnvironmentDetail", "EnvironmentOut"),
    "PresetOut": Model("Preset"),
    "PresetDetail": Model("PresetDetail", "PresetOut"),
    "ModelFitOut": Model("ModelFit"),
    "ModelStoreOut": Model("ModelStore"),
    "ModelOut": Model("LanguageModel"),
    "GpuOut": Model("Gpu"),
    "ClusterNodeOut": Model("ClusterNode"),
    "ClusterOut": Model("Cluster"),
    "WorkerOut": Model("Worker"),
}
"""Components of the document that the client exports, base classes first."""

DEFAULTS = {
    ("RunOut", "queue"): '"training"',
    ("RunOut", "priority"): '"normal"',
    ("RunOut", "gpus"): "0",
    ("RunOut", "group"): '""',
    ("RunOut", "condition"): "None",
    ("RunDetail", "waiting"): "None",
    ("AlertRuleOut", "pauses"): "False",
    ("TrajectoryOut", "end_reason"): '""',
    ("TrajectoryOut", "false_claim_kinds"): "[]",
    ("TrajectoryOut", "worst_mark"): "None",
    ("TrajectoryOut", "first_mistake_turn"): "None",
    ("TrajectoryOut", "commentary"): '""',
    ("TrajectoryOut", "training_use"): '""',
    ("TrajectoryOut", "mismatch"): "None",
    ("TrajectoryDetail", "marks"): "[]",
    ("TrajectoryDetail", "verdict"): "None",
    ("TrajectoryDetail", "recorded"): "False",
    ("TrajectoryDetail", "question"): "None",
    ("WorkerOut", "device_class"): '""',
    ("WorkerOut", "gpus"): "[]",
    ("WorkerOut", "cluster"): "None",
    ("EnvironmentDetail", "variants"): "{}",
}
"""Values of fields that older sites do not send."""

SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


def client_types() -> str:
    """Return the text of echoscope/models.py. Raises ValueError for a schema that has no counterpart in the client."""
    document = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/")))
    components: dict[str, dict[str, Any]] = document["components"]["schemas"]
    classes = ["\n".join(_class(component, components)) for component in MODELS]
    return "\n\n".join([HEADER, *classes])


def _class(component: str, components: dict[str, dict[str, Any]]) -> Iterator[str]:
    schema, model = components[component], MODELS[component]
    base = MODELS[model.base].name if model.base in MODELS else model.base
    inherited = components[model.base]["properties"] if model.base in MODELS else {}
    if changed := [name for name, field in inherited.items() if schema["properties"].get(name) != field]:
        raise ValueError(f"{component} is not a {model.base}: {', '.join(changed)} differ.")
    yield f"class {model.name}({base}):"
    if "description" in schema:
        yield from _docstring(schema["description"])
        yield ""
    for name, field in schema["properties"].items():
        if name in inherited:
            continue
        default = DEFAULTS.get((component, name))
        yield f"    {name}: {_annotation(field)}" + (f" = {default}" if default else "")
        if "description" in field:
            yield from _docstring(field["description"])
    yield ""


def _annotation(schema: dict[str, Any]) -> str:
    """Return the Python type of a JSON Schema."""
    if "$ref" in schema:
        return MODELS[schema["$ref"].rsplit("/", 1)[-1]].name
    if "anyOf" in schema:
        return " | ".join(_annotation(option) for option in schema["anyOf"])
    match schema.get("type"):
        case "null":
            return "None"
        case "array":
            return f"list[{_annotation(schema['items'])}]"
        case "object":
            values = schema.get("additionalProperties", True)
            return f"dict[str, {'Any' if values is True else _annotation(values)}]"
        case "string" if schema.get("format") == "date-time":
            return "datetime"
        case kind if kind in SCALARS:
            return SCALARS[kind]
    raise ValueError(f"The client has no type for the schema {schema}.")


def _docstring(text: str) -> list[str]:
    one_line = f'    """{text}"""'
    if len(one_line) <= WIDTH and "\n" not in text:
        return [one_line]
    lines = textwrap.wrap('"""' + " ".join(text.split()), WIDTH - 4)
    return [f"    {line}" for line in [*lines, '"""']]
