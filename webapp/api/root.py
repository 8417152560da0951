"""The API: routers, authentication, error handling and the OpenAPI document."""

from __future__ import annotations

import json
from typing import Any

import pydantic
from django.http import HttpRequest
from ninja import NinjaAPI
from ninja.errors import ValidationError, ValidationErrorContext
from ninja.openapi.schema import OpenAPISchema
from ninja.parser import Parser
from ninja.types import DictStrAny

from webapp.api import errors
from webapp.api.auth import Session, Token
from webapp.api.routes import (
    branches,
    changes,
    comparison,
    environments,
    evaluation_questions,
    exports,
    groups,
    journals,
    language_models,
    me,
    presets,
    reports,
    results,
    runs,
    studies,
    trajectories,
    workers,
)
from webapp.api.routes.teamwork import alerts, audit_log, shares
from webapp.api.routes.teamwork import annotations as annotation_routes
from webapp.core.middleware import nul

ABOUT = """The data and actions of this site's pages, for programs. Every object belongs to a team; objects you may not
see return 404. Reading needs a token with the scope “read”; changes need “write” and at least the role member, comments
any role. All errors have the same format and say what to do."""


class StrictParser(Parser):
    """Standard JSON: rejects NaN and Infinity, and texts with NUL."""

    def parse_body(self, request: HttpRequest) -> DictStrAny:
        def refuse(name: str) -> None:
            raise ValueError(f"{name} is not JSON")

        body: DictStrAny = json.loads(request.body, parse_constant=refuse)
        if nul.in_json(body):
            raise errors.Problem(400, nul.MESSAGE)
        return body


class Api(NinjaAPI):
    """Ninja API that keeps the input of validation errors, for messages that quote it, and builds its document once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._documents: dict[str, OpenAPISchema] = {}

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: DictStrAny | None = None
    ) -> OpenAPISchema:
        """Return the OpenAPI document; callers do not change it.

        Building it takes a second, everyone may request it, and operations do not change while the site runs.
        """
        prefix = self.get_root_path(path_params or {}) if path_prefix is None else path_prefix
        if prefix not in self._documents:
            self._documents[prefix] = super().get_openapi_schema(path_prefix=prefix)
        return self._documents[prefix]

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> ValidationError:
        details: list[dict[str, Any]] = []
        for context in error_contexts:
            model, error = context.model, context.pydantic_validation_error
            assert isinstance(error, pydantic.ValidationError)
            for item in error.errors(include_url=False):
                location = model.__ninja_flatten_map_reverse__.get(item["loc"], item["loc"])
                details.append({**item, "loc": (model.__ninja_param_source__, *location)})
        return ValidationError(details)


api = Api(
    title="Echoscope",
    version="1",
    description=" ".join(ABOUT.split()),
    urls_namespace="api",
    docs_url=None,  # replaced by the page of docs.py
    openapi_url="/openapi.json",
    auth=[Token(), Session()],
    parser=StrictParser(),
)
errors.install(api)
for router in (
    journals.router,
    runs.router,
    changes.router,
    groups.router,
    results.router,
    comparison.router,
    trajectories.router,
    branches.router,
    evaluation_questions.router,
    exports.router,
    annotation_routes.router,
    shares.router,
    alerts.router,
    reports.router,
    studies.router,
    me.router,
    audit_log.router,
    environments.router,
    presets.router,
    language_models.router,
    workers.router,
):
    api.add_router("", router)
