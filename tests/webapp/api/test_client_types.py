"""The models of the client match the OpenAPI document."""

from __future__ import annotations

import json

import pytest
from django.conf import settings

from echoscope import models
from webapp.api import client_types
from webapp.api.root import api


def test_the_models_of_the_client_are_up_to_date() -> None:
    exported = (settings.ROOT / "echoscope" / "models.py").read_text(encoding="utf-8")
    assert exported == client_types.client_types(), "run: python manage.py export_client_types"


def test_every_response_with_fields_is_exported() -> None:
    """Pages of lists, curves, logs and errors are unpacked by the client itself."""
    document = json.loads(json.dumps(api.get_openapi_schema(path_prefix="/api/")))
    responses = json.dumps(
        [operation["responses"] for path in document["paths"].values() for operation in path.values()]
    )
    pages = {"RunPage", "TrajectoryPage", "ReportPage", "StudyPage", "AuditPage", "SettingsChangeList", "QuestionPage"}
    pages |= {"EvaluationQuestionPage"}
    unpacked = pages | {"CurveOut", "LogOut", "ErrorOut"}
    components = {name for name in document["components"]["schemas"] if f'/{name}"' in responses}
    assert components - unpacked <= set(client_types.MODELS)


@pytest.mark.parametrize("schema", [{"type": "string", "format": "date-time"}, {"type": "integer"}])
def test_a_type_of_json_schema_has_a_python_type(schema: dict[str, str]) -> None:
    assert client_types._annotation({"anyOf": [schema, {"type": "null"}]}) in ("datetime | None", "int | None")


def test_an_unknown_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="no type"):
        client_types._annotation({"type": "mystery"})


@pytest.mark.parametrize(("model", "field"), [("Run", "group"), ("RunDetail", "group"), ("Trajectory", "end_reason")])
def test_answers_of_older_sites_are_read(model: str, field: str) -> None:
    known = getattr(models, model).model_fields[field]
    assert not known.is_required()
    assert known.default == ""
