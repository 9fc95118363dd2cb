"""JSON Schemas as graphs of what a reader must remember of a value.

    {anyOf: [{type: object, required: [a]}, {type: "null"}]}    nodes 0 and its alternatives 1, 2

All nodes that apply to a value read it at once. The keywords of scalars need no graph, because a
validator judges a whole scalar.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

_SCALAR_KEYWORDS = frozenset(
    """exclusiveMaximum exclusiveMinimum maxLength maximum minLength minimum multipleOf""".split()
)
"""Keywords that accept every array and object."""
_STRING_KEYWORDS = frozenset({"const", "enum", "maxLength", "minLength"})
"""Keywords that distinguish strings."""
_OWN_KEYWORDS = frozenset(
    """$ref additionalProperties allOf anyOf const enum items maxItems minItems not oneOf
    prefixItems properties required type""".split()
)
"""Keywords that nodes represent."""
_PLACES = frozenset("$anchor $dynamicAnchor $id $recursiveAnchor id".split())
"""Keywords that change where a reference leads."""
Ids = tuple[int, ...]


class UnsupportedSchema(Exception):
    """Error for a schema of which a reader would have to remember too much."""


@dataclass(frozen=True)
class SchemaNode:
    """What one schema requires of a value.

    Attributes:
        schema: the schema, which a validator applies to scalars.
        accepts_arrays: whether an array may satisfy it.
        accepts_objects: whether an object may satisfy it.
        first_items: nodes of the first items of an array.
        items: node of the other items; None if they may be anything.
        min_items: minimum number of items.
        max_items: maximum number of items; None for no limit.
        properties: node of each declared property.
        required: names of the required properties.
        accepts_others: whether there may be other properties.
        applicators: further nodes for the same value, each list with `all`, `any`, `one` or `not`.
    """

    schema: Any
    accepts_arrays: bool = True
    accepts_objects: bool = True
    first_items: Ids = ()
    items: int | None = None
    min_items: float = 0
    max_items: float | None = None
    properties: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    accepts_others: bool = True
    applicators: tuple[tuple[str, Ids], ...] = ()


class SchemaGraph:
    """Nodes of a schema and of its subschemas.

    Attributes:
        nodes: the nodes; the first one is the root.
        names: texts that a reader must recognise in strings.
        max_length: largest number of characters of a string that matters.
        source: the arguments as text, equal for equal graphs.

    Args:
        schema: a valid schema.
        keywords: all keywords that assert something.
        formats: formats that are asserted.

    Raises:
        UnsupportedSchema: a keyword is not supported.
    """

    def __init__(self, schema: Any, keywords: Collection[str], formats: Collection[str]) -> None:
        try:
            self.source = json.dumps([schema, sorted(keywords), sorted(formats)])
        # an anchor of YAML may lead to a value around it
        except (ValueError, RecursionError) as error:
            raise UnsupportedSchema("a schema within itself") from error
        self._root = schema
        self._keywords = keywords
        self._formats = formats
        # up to draft 7 a reference replaces the keywords next to it
        self._has_siblings = "dependentSchemas" in keywords
        self._numbers: dict[int | bool, int] = {}
        self._pending: list[Any] = []
        self.nodes: list[SchemaNode] = []
        self.names: set[str] = set()
        self.max_length = 0
        self._number(schema)
        # the loop adds schemas
        for pending in self._pending:
            self.nodes.append(self._build_node(pending))
        self._check_cycles()

    def _number(self, schema: Any) -> int:
        """Return the number of a schema's node, which is built later."""
        key = schema if isinstance(schema, bool) else id(schema)
        if isinstance(key, bool):
            # integers are ids, and True is equal to 1
            key = -2 if schema else -1
        if key not in self._numbers:
            self._numbers[key] = len(self._pending)
            self._pending.append(schema)
        return self._numbers[key]

    def _build_node(self, schema: Any) -> SchemaNode:
        if isinstance(schema, bool):
            return SchemaNode(schema, accepts_arrays=schema, accepts_objects=schema)
        if "$ref" in schema and not self._has_siblings:
            return SchemaNode(schema, applicators=(("all", (self._find_target(schema),)),))
        self._check_keywords(schema)
        types = schema.get("type", ("array", "object"))
        names = (types,) if isinstance(types, str) else types
        accepts_containers = self._has_scalar_values(schema)
        first_items, properties = schema.get("prefixItems", ()), schema.get("properties", {})
        required = frozenset(schema.get("required", ()))
        self.names |= {*properties, *required}
        for keyword in ("minLength", "maxLength"):
            self.max_length = max(self.max_length, int(schema.get(keyword, -1)) + 1)
        return SchemaNode(
            schema,
            accepts_arrays=accepts_containers and "array" in names,
            accepts_objects=accepts_containers and "object" in names,
            first_items=self._number_all(first_items),
            items=self._number(schema["items"]) if "items" in schema else None,
            min_items=schema.get("minItems", 0),
            max_items=schema.get("maxItems"),
            properties={name: self._number(value) for name, value in properties.items()},
            required=required,
            accepts_others=schema.get("additionalProperties", True) is not False,
            applicators=self._build_applicators(schema),
        )

    def _check_keywords(self, schema: Mapping[str, Any]) -> None:
        """Check that a node represents all keywords that assert something.

        Raises:
            UnsupportedSchema: it does not.
        """
        asserting = {keyword for keyword in schema if keyword in self._keywords}
        if schema.get("format") not in self._formats:
            asserting -= {"format"}
        places = _PLACES & schema.keys()
        if unsupported := (asserting - _OWN_KEYWORDS - _SCALAR_KEYWORDS) | places:
            raise UnsupportedSchema(f"the keywords {sorted(unsupported)}")
        if isinstance(schema.get("items"), list):
            raise UnsupportedSchema("a list of items")
        if schema.get("additionalProperties", True) not in (True, False, {}):
            raise UnsupportedSchema("a schema of additional properties")

    def _has_scalar_values(self, schema: Mapping[str, Any]) -> bool:
        """Collect the texts of `const` and `enum`; return whether there are none of these.

        Raises:
            UnsupportedSchema: a value is no scalar.
        """
        values = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
        if any(isinstance(value, list | Mapping) for value in values):
            raise UnsupportedSchema("an array or object in enum or const")
        self.names |= {value for value in values if isinstance(value, str)}
        return not {"const", "enum"} & {name for name in schema if name in self._keywords}

    def _build_applicators(self, schema: Mapping[str, Any]) -> tuple[tuple[str, Ids], ...]:
        kinds = {"allOf": "all", "anyOf": "any", "oneOf": "one"}
        applicators = [
            (kinds[keyword], self._number_all(schema[keyword]))
            for keyword in kinds
            if keyword in schema
        ]
        if "not" in schema:
            applicators.append(("not", (self._number(schema["not"]),)))
        if "$ref" in schema:
            applicators.append(("all", (self._find_target(schema),)))
        return tuple(applicators)

    def _number_all(self, schemas: Sequence[Any]) -> Ids:
        return tuple(map(self._number, schemas))

    def _find_target(self, schema: Mapping[str, Any]) -> int:
        """Return the node to which a reference leads.

        Raises:
            UnsupportedSchema: the reference is no JSON pointer.
        """
        reference = schema["$ref"]
        if reference != "#" and not reference.startswith("#/"):
            raise UnsupportedSchema(f"the reference {reference!r}")
        target = self._root
        for step in reference[1:].split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            target = target[int(name) if isinstance(target, list) else name]
        return self._number(target)

    def _check_cycles(self) -> None:
        """Check that no node applies itself to the same value.

        Raises:
            UnsupportedSchema: a node does.
        """
        for number in range(len(self.nodes)):
            stack = list(self._apply(number))
            visited: set[int] = set()
            while stack:
                following = stack.pop()
                if following == number:
                    raise UnsupportedSchema("a reference that leads to itself")
                if following not in visited:
                    visited.add(following)
                    stack += self._apply(following)

    def _apply(self, number: int) -> list[int]:
        """Return the further nodes for the value of a node."""
        return [child for _, children in self.nodes[number].applicators for child in children]

    def find_all(self, asked: Ids) -> Ids:
        """Return some nodes and all further nodes for their value."""
        found: dict[int, None] = {}
        stack = list(asked)
        while stack:
            number = stack.pop()
            if number not in found:
                found[number] = None
                stack += self._apply(number)
        return tuple(sorted(found))

    def distinguishes_strings(self, numbers: Ids) -> bool:
        """Return whether the content of a string matters to some nodes."""
        schemas = (self.nodes[number].schema for number in numbers)
        return any(isinstance(item, Mapping) and _STRING_KEYWORDS & item.keys() for item in schemas)

    def find_satisfied(self, numbers: Ids, failed: Collection[int]) -> frozenset[int]:
        """Return the nodes that a value satisfies, of all nodes that apply to it.

        Args:
            numbers: the nodes that apply to it.
            failed: those whose own requirements it does not satisfy.
        """
        verdicts: dict[int, bool] = {}

        def is_satisfied(number: int) -> bool:
            if number not in verdicts:
                verdicts[number] = number not in failed and all(
                    _combine(kind, [is_satisfied(child) for child in children])
                    for kind, children in self.nodes[number].applicators
                )
            return verdicts[number]

        return frozenset(number for number in numbers if is_satisfied(number))

    def is_possible(self, number: int, failed: Collection[int]) -> bool:
        """Return whether a value may still satisfy a node, as far as its failed nodes show."""
        return number not in failed and all(
            kind == "not"
            or (all if kind == "all" else any)(
                self.is_possible(child, failed) for child in children
            )
            for kind, children in self.nodes[number].applicators
        )


def _combine(kind: str, verdicts: list[bool]) -> bool:
    match kind:
        case "all":
            return all(verdicts)
        case "any":
            return any(verdicts)
        case "one":
            return sum(verdicts) == 1
        # the other kind, `not`
        case _:
            return not verdicts[0]
