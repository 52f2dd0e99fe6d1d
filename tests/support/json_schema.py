"""A check of values against a JSON schema, of the keywords that the schema of configurations has."""

import re

TYPES = {
    "object": dict,
    "array": (list, tuple),
    "string": str,
    "boolean": bool,
    "null": type(None),
    "number": (int, float),
    "integer": (int, float),
}
ABOUT = {"$schema", "title", "description", "default", "deprecated", "format"}
KNOWN = ABOUT | {
    "type", "enum", "properties", "required", "additionalProperties", "allOf", "anyOf", "if", "then", "items",
    "prefixItems", "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "pattern",
}  # fmt: skip


def complaints(schema, value, path=""):
    """List what a schema has against a value, each with the path of the key.

    A keyword that is not known here is an error: it would be a check that is not made.
    """
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    found = []

    def complain(text):
        found.append(f"{path}: {text}")

    kind = schema.get("type")
    if kind is not None and not is_of_type(value, kind):
        complain(f"no {kind}")
        return found
    if "enum" in schema and value not in schema["enum"]:
        complain(f"not one of {schema['enum']}")
    if "anyOf" in schema:
        options = [complaints(option, value, path) for option in schema["anyOf"]]
        found += [] if [] in options else min(options, key=len)
    for part in schema.get("allOf", ()):
        found += complaints(part, value, path)
    if "if" in schema and complaints(schema["if"], value) == []:
        found += complaints(schema["then"], value, path)
    if isinstance(value, dict):
        found += complaints_of_object(schema, value, path)
    if isinstance(value, (list, tuple)):
        found += complaints_of_list(schema, value, path)
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        complain(f"does not match {schema['pattern']}")
    if isinstance(value, (int, float)):
        if value < schema.get("minimum", value):
            complain(f"below {schema['minimum']}")
        if value > schema.get("maximum", value):
            complain(f"above {schema['maximum']}")
        if "exclusiveMinimum" in schema and not value > schema["exclusiveMinimum"]:
            complain(f"not above {schema['exclusiveMinimum']}")
    return list(dict.fromkeys(found))


def is_of_type(value, kind):
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(value, (int, float)) and float(value).is_integer()
    return isinstance(value, TYPES[kind])


def complaints_of_object(schema, value, path):
    found = [f"{joined(path, name)}: missing" for name in schema.get("required", ()) if name not in value]
    properties = schema.get("properties", {})
    for name, item in value.items():
        if name in properties:
            found += complaints(properties[name], item, joined(path, name))
        elif schema.get("additionalProperties") is False:
            found.append(f"{joined(path, name)}: not allowed")
    return found


def complaints_of_list(schema, value, path):
    found = []
    if len(value) < schema.get("minItems", 0):
        found.append(f"{path}: fewer than {schema['minItems']}")
    if len(value) > schema.get("maxItems", len(value)):
        found.append(f"{path}: more than {schema['maxItems']}")
    parts = schema.get("prefixItems", [])
    for place, item in enumerate(value):
        part = parts[place] if place < len(parts) else schema.get("items", {})
        found += complaints(part, item, f"{path}.{place}")
    return found


def joined(path, name):
    return f"{path}.{name}" if path else name
