"""Base model of the configuration sections, and self-documenting fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from trainer.config.conditions import Data, NoEffect

POCKET = "pocket"
"""Name of the built-in policy."""


def setting(
    default: Any,
    help: str,
    *,
    unit: str = "",
    source: str = "",
    added: bool = False,
    **limits: Any,
) -> Any:
    """Create a field with its help, unit and source; `limits` are pydantic's (gt, ge, lt, le).

    Args:
        added: digests omit the setting if it has its default, which must not change runs from before it was added.
    """
    extra: dict[str, Any] = {"unit": unit, "source": source}
    if added:
        extra["added"] = True
    return Field(default, description=help, json_schema_extra=extra, **limits)


class Section(BaseModel):
    """A group of settings. Unknown names are errors."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)
    no_effect: ClassVar[tuple[NoEffect, ...]] = ()
    """When settings of the section cannot matter; the first rule that applies gives the reason."""

    @classmethod
    def without_effect(cls, data: Data, prefix: str = "") -> dict[str, str]:
        """Map each setting that cannot matter to the reason, by dotted name.

        Args:
            data: the whole configuration, possibly unvalidated.
            prefix: dotted name of this section in it, with a dot.
        """
        reasons: dict[str, str] = {}
        for name, field in cls.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
                reasons |= field.annotation.without_effect(data, f"{prefix}{name}.")
                continue
            rules = (rule.reason_for(data) for rule in cls.no_effect if rule.covers(name))
            if reason := next(filter(None, rules), None):
                reasons[prefix + name] = reason
        return reasons

    def stable_dump(self) -> dict[str, Any]:
        """Dump the settings for digests, without later additions that have their defaults."""
        result: dict[str, Any] = {}
        for name, value in self.model_dump().items():
            inner, field = getattr(self, name), type(self).model_fields[name]
            extra = field.json_schema_extra
            if isinstance(extra, dict) and extra.get("added") and inner == field.default:
                continue
            value = inner.stable_dump() if isinstance(inner, Section) else value
            if isinstance(inner, Section) and not value:  # a section added later, with all of its defaults
                continue
            result[name] = value
        return result

    def differences(self, other: Self, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
        """Yield the dotted name, own value and other value of each setting that differs."""
        for name in type(self).model_fields:
            mine, its = getattr(self, name), getattr(other, name)
            if isinstance(mine, Section):
                yield from mine.differences(its, f"{prefix}{name}.")
            elif mine != its:
                yield f"{prefix}{name}", mine, its


_ERRORS = {
    "extra_forbidden": "there is no setting of this name",
    "missing": "is required",
    "string_type": "must be a text, not {given!r}",
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be a whole number, not {given!r}"),
    **dict.fromkeys(("float_parsing", "float_type"), "must be a number, not {given!r}"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be on or off, not {given!r}"),
    "list_type": "must be a list, not {given!r}",
    **dict.fromkeys(("model_type", "dict_type"), "must be a mapping of settings, not {given!r}"),
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "value_error": "{error}",
}
"""Texts for pydantic's types of errors, with placeholders for their contexts."""


def error_text(error: Mapping[str, Any]) -> str:
    """Return our text for one of pydantic's errors."""
    text = _ERRORS.get(error["type"])
    return str(error["msg"]) if text is None else text.format(given=error.get("input"), **error.get("ctx", {}))


def is_hub_id(name: str) -> bool:
    """True if a name that is not a folder looks like a hub id, OWNER/MODEL; no other name is looked up."""
    return name.count("/") == 1 and not name.startswith((".", "/", "~"))


def base_url(text: str, example: str, about_keys: str = "") -> str:
    """Return the base URL of a server without trailing slashes. `about_keys` says where credentials belong instead.

    Raises:
        ValueError: the text is not an http(s) address, or contains credentials, a query or a fragment. A `#` would cut
            off the path that a client appends, so that requests would go to the text itself.
    """
    url = text.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ValueError(f"must be an address such as {example}, not {url!r}")
    if "@" in parts.netloc:
        raise ValueError(f"must not hold a user name or key{about_keys and ': '}{about_keys}")
    if "?" in url or "#" in url:
        raise ValueError("must be the base URL, without ? and #")
    return url


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


TextList = Annotated[list[str], BeforeValidator(_as_list)]
"""Texts; a single text is accepted instead of a list: `urls: http://gpu1:8000`."""
