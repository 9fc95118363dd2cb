"""The text of a converted suite: YAML that every reader understands alike."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import yaml

_PLAIN_KEY = re.compile(r"[a-z]+(_[a-z0-9]+)*")
_YAML_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Words that YAML 1.1 does not read as texts."""
_OTHER_LINE_ENDS = "\r\x85\u2028\u2029"
"""Characters at which YAML 1.1 breaks lines, and YAML 1.2 partly does not."""


class _Dumper(yaml.SafeDumper):
    """A writer that quotes all texts but the keys of suites."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_mapping(
        self, tag: str, mapping: Any, flow_style: bool | None = None
    ) -> yaml.MappingNode:
        node = super().represent_mapping(tag, mapping, flow_style)
        for key, _ in node.value:
            if _PLAIN_KEY.fullmatch(key.value) and key.value not in _YAML_WORDS:
                key.style = None
        return node


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    # a block keeps the lines of a long prompt; the writer quotes what a block cannot contain
    is_block = "\n" in text and not any(end in text for end in _OTHER_LINE_ENDS)
    style = "|" if is_block else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_decimal(dumper: yaml.SafeDumper, number: Decimal) -> yaml.Node:
    text = f"{number:f}"
    kind = "float" if "." in text else "int"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", text)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(Decimal, _represent_decimal)


def format_suite(suite: Mapping[str, Any], source: str, omissions: Sequence[str]) -> str:
    """Format a suite, with the parts that were not converted in a comment."""
    comment = ""
    if omissions:
        lines = "".join(f"#   {omission}\n" for omission in omissions)
        comment = f"# Not converted from {source}, or to be checked:\n{lines}\n"
    return comment + yaml.dump(
        dict(suite), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**6
    )
