"""The checksum of a configuration's keys, and their JSON schema for editors.

    .venv/bin/python -m llmchecker.config.schema

prints the schema of the keys in `keys.py` and `registry_keys.py`.
"""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from llmchecker.config.keys import ConfigKeys
from llmchecker.config.plugins import extend_keys
from llmchecker.utils.json_digest import compute_json_digest
from llmchecker.utils.plugins import SECTIONS, find_plugins
from llmchecker.utils.section import Section


def compute_config_sha256(keys: ConfigKeys) -> str:
    """Compute the sha256 of a configuration with all defaults, as sorted JSON.

    Comments, the order of keys, and explicit defaults do not change the checksum.
    """
    data = keys.model_dump(by_alias=True, exclude_none=True)
    # 1 and 1.0 are the same number in a configuration.
    normal_form = json.loads(json.dumps(data), parse_int=float)
    return compute_json_digest(normal_form)


class _SchemaGenerator(GenerateJsonSchema):
    """A schema generator that omits titles, descriptions of sections, and null."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: Any) -> dict[str, Any]:
        entry = super().model_schema(schema)
        return {key: entry[key] for key in entry if key not in ("title", "description")}

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        entry = super().dict_schema(schema)
        if "patternProperties" in entry:  # a pattern alone would accept names that do not match it
            (entry["additionalProperties"],) = entry.pop("patternProperties").values()
            entry["propertyNames"] = self.generate_inner(schema["keys_schema"])
        return entry

    def default_schema(self, schema: Any) -> dict[str, Any]:
        # Null is not accepted in a file, and `default: null` would suggest it.
        if schema.get("default") is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def encode_default(self, default: Any) -> Any:
        return (
            # A section as a default contains its own keys only, not the keys with defaults.
            default.explicit_keys
            if isinstance(default, Section)
            else super().encode_default(default)
        )


def build_schema() -> dict[str, Any]:
    """Build the JSON schema of a configuration, with the sections of installed packages."""
    keys = extend_keys(find_plugins(SECTIONS, "section"))
    text = json.dumps(keys.model_json_schema(schema_generator=_SchemaGenerator))
    schema = json.loads(text.replace("\\n", " "))  # line breaks of docstrings
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": "LLMChecker configuration",
        **schema,
    }


if __name__ == "__main__":
    print(json.dumps(build_schema(), indent=2, ensure_ascii=False))
