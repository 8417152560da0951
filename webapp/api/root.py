"""The API as a whole: its parts, who may call it, how it says no, and its OpenAPI document."""

from __future__ import annotations

import json
from typing import Any

import pydantic
from django.http import HttpRequest
from ninja import NinjaAPI
from ninja.errors import ValidationError, ValidationErrorContext
from ninja.parser import Parser
from ninja.types import DictStrAny

from webapp.api import errors
from webapp.api.auth import Session, Token
from webapp.api.routes import environments, journals, me, presets, results, runs, shares, trajectories, workers

ABOUT = """Everything a page of this site shows or does, for programs. Everything belongs to a team: what you may not
see does not exist for you (404). Reading needs the scope “read” of a token, changing needs “write” and a role of at
least member. Every error has the same shape and says what to do."""


class StrictParser(Parser):
    """JSON as the standard has it: no NaN, no Infinity."""

    def parse_body(self, request: HttpRequest) -> DictStrAny:
        def refuse(name: str) -> None:
            raise ValueError(f"{name} is not JSON")

        body: DictStrAny = json.loads(request.body, parse_constant=refuse)
        return body


class Api(NinjaAPI):
    """Ninja, with errors that still know what was sent, so that they can be told in words."""

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> ValidationError:
        found: list[dict[str, Any]] = []
        for context in error_contexts:
            model, error = context.model, context.pydantic_validation_error
            assert isinstance(error, pydantic.ValidationError)
            for item in error.errors(include_url=False):
                place = model.__ninja_flatten_map_reverse__.get(item["loc"], item["loc"])
                found.append({**item, "loc": (model.__ninja_param_source__, *place)})
        return ValidationError(found)


api = Api(
    title="Echoscope",
    version="1",
    description=" ".join(ABOUT.split()),
    urls_namespace="api",
    docs_url=None,  # docs.py shows it
    openapi_url="/openapi.json",
    auth=[Token(), Session()],
    parser=StrictParser(),
)
errors.install(api)
for router in (
    journals.router,
    runs.router,
    results.router,
    trajectories.router,
    shares.router,
    me.router,
    environments.router,
    presets.router,
    workers.router,
):
    api.add_router("", router)
