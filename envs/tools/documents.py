"""Collections of short documents, generated or from a file, and their search tool."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from envs.support.json_records import RecordsError, read_records, stamp
from envs.support.rng import SeededRng, Stream
from envs.tools.tool import Tool, text_tool
from envs.webshop.product_search import Index

MAX_DOCUMENTS = 20_000
MAX_TEXT = 20_000
NOTHING_FOUND = "Nothing found."

_CRAFTS = ("glass", "pottery", "clocks", "carpets", "cheese", "honey", "paper", "bells", "boats", "violins", "salt")
_JOBS = ("painter", "baker", "botanist", "composer", "geologist", "poet", "sailor", "surgeon", "carpenter", "judge")
_CONSONANTS, _VOWELS = "bdfgklmnprstv", "aeiou"


@dataclass(frozen=True)
class Document:
    """A title and a text."""

    title: str
    text: str


@dataclass(frozen=True)
class Person:
    """A person in a generated collection, with the facts in the documents and their place of birth."""

    name: str
    job: str
    town: str
    river: str
    craft: str


@dataclass(frozen=True)
class Collection:
    """Documents, and the people in them if they were generated."""

    documents: tuple[Document, ...]
    people: tuple[Person, ...] = ()


def _name(rng: SeededRng, syllables: int, used: set[str]) -> str:
    """Return a pronounceable name that was not used before."""
    while True:
        name = "".join(rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(syllables))
        name = (name + rng.choice(_CONSONANTS)).capitalize()
        if name not in used:
            used.add(name)
            return name


@lru_cache(maxsize=16)
def generated_collection(size: int, seed: int) -> Collection:
    """Generate documents about invented towns, and about people who were born in them; half of each.

    Args:
        size: number of documents, even and at least 4.
        seed: seed of the collection.
    """
    rng, used = SeededRng(seed, Stream.START), set[str]()
    rivers = [_name(rng, 2, used) for _ in range(max(2, size // 6))]
    towns = [(_name(rng, 2, used), rng.choice(rivers), rng.choice(_CRAFTS)) for _ in range(size // 2)]
    documents = [
        Document(town, f"{town} is a town on the river {river}. Its workshops make {craft}.")
        for town, river, craft in towns
    ]
    people = []
    for _ in range(size // 2):
        name, job = f"{_name(rng, 2, used)} {_name(rng, 2, used)}", rng.choice(_JOBS)
        town, river, craft = rng.choice(towns)
        people.append(Person(name, job, town, river, craft))
        documents.append(Document(name, f"{name} is a {job} and was born in {town}."))
    return Collection(tuple(documents), tuple(people))


def read_documents(path: Path) -> Collection:
    """Return the documents in a file, cached until it changes. Raises RecordsError naming file and line."""
    return _read_documents(path, stamp(path))


@lru_cache(maxsize=4)
def _read_documents(path: Path, _: tuple[int, int]) -> Collection:
    documents = []
    for line, record in read_records(path):
        title, text = record.get("title", ""), record.get("text")
        if not isinstance(title, str) or not isinstance(text, str) or not text.strip() or len(text) > MAX_TEXT:
            raise RecordsError(
                path, line, f"a document needs a text of 1 to {MAX_TEXT} characters, and may have a title"
            )
        documents.append(Document(title.strip(), text.strip()))
        if len(documents) > MAX_DOCUMENTS:
            raise RecordsError(path, line, f"more than {MAX_DOCUMENTS} documents")
    if not documents:
        raise RecordsError(path, None, 'contains no document; write one per line: {"title": "…", "text": "…"}')
    return Collection(tuple(documents))


@lru_cache(maxsize=16)
def _index(collection: Collection) -> Index:
    return Index([f"{document.title} {document.text}" for document in collection.documents])


def search_tool(collection: Collection, results: int) -> Tool:
    """Return the tool `search(query)`, which finds the documents that fit the words best (BM25), one per line.

    Args:
        results: number of documents in a result.
    """

    def search(query: str) -> str:
        matches = [collection.documents[number] for number in _index(collection).find(query)[:results]]
        return (
            "\n".join(f"{document.title}: {document.text}" if document.title else document.text for document in matches)
            or NOTHING_FOUND
        )

    about = f"Search the documents. Returns the {results} that fit the words best."
    return text_tool("search", about, "query", "Words to search for.", search)
