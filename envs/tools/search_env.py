"""Questions about documents, with a search tool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from envs.base import EnvSettings
from envs.support.rng import SeededRng
from envs.text_roles import TextRole
from envs.tools.calls import ToolCall
from envs.tools.documents import Collection, Person, generated_collection, read_documents, search_tool
from envs.tools.tool import Tool
from envs.tools.tool_env import Task, ToolEnv, ToolSettings, read_tasks


class SearchSettings(ToolSettings):
    """Settings of documents, search and questions."""

    documents: int = Field(60, ge=4, le=2000, multiple_of=2, description="Generated documents.")
    collection_seed: int = Field(0, ge=0, description="Seed of the generated documents; all episodes have the same.")
    hops: int = Field(2, ge=1, le=2, description="Documents that the answer to a generated question takes.")
    results: int = Field(2, ge=1, le=20, description="Documents that a search returns.")
    path: Annotated[str | None, TextRole.PATH] = Field(
        None,
        max_length=1000,
        description="File of documents, JSONL with the fields title and text; empty = generated ones.",
    )
    questions: Annotated[str | None, TextRole.PATH] = Field(
        None,
        max_length=1000,
        description="File of questions about them, JSONL with the fields question and answer; empty = generated ones.",
    )

    @model_validator(mode="after")
    def both_or_none(self) -> Self:
        """Require generated documents for generated questions."""
        if bool(self.path) != bool(self.questions):
            raise ValueError("path and questions belong together: set both, or neither for generated ones")
        return self


class ToolSearch(ToolEnv):
    """Facts that no model knows, in documents about invented people and towns, or in your own documents."""

    Settings: ClassVar[type[EnvSettings]] = SearchSettings
    settings: SearchSettings
    trusted = True
    about: ClassVar[dict[str, str]] = {
        "name": "ToolSearch",
        "title": "Tools: search",
        "summary": "Answer a question by searching a collection of documents, once or twice.",
        "instruction": "Answer the question in as few words as possible. Search the documents first.",
    }

    def make_tools(self) -> Sequence[Tool]:
        if self.settings.path:
            return []  # the file is read at a reset
        return [search_tool(self._collection(), self.settings.results)]

    def _collection(self) -> Collection:
        if self.settings.path:
            return read_documents(Path(self.settings.path))
        return generated_collection(self.settings.documents, self.settings.collection_seed)

    def draw(self, rng: SeededRng) -> Task:
        collection = self._collection()
        if self.settings.questions:
            self._offer([search_tool(collection, self.settings.results)])
            return rng.choice(read_tasks(Path(self.settings.questions)))
        person = rng.choice(collection.people)
        return _one_hop(person, rng) if self.settings.hops == 1 else _two_hops(person, rng)


def _one_hop(person: Person, rng: SeededRng) -> Task:
    question, answer = rng.choice(
        [
            (f"In which town was {person.name} born?", person.town),
            (f"What is the occupation of {person.name}?", person.job),
        ]
    )
    return Task(question, answer, (_search(person.name),))


def _two_hops(person: Person, rng: SeededRng) -> Task:
    question, answer = rng.choice(
        [
            (f"On which river is the town where {person.name} was born?", person.river),
            (f"What do workshops make in the town where {person.name} was born?", person.craft),
        ]
    )
    return Task(question, answer, (_search(person.name), _search(person.town)))


def _search(query: str) -> ToolCall:
    return ToolCall("search", {"query": query})
