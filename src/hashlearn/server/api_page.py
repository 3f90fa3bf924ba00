"""The OpenAPI schema as a page for people: plain HTML, no script, no request to another host."""

from collections.abc import Iterator
from html import escape
from typing import Any

from hashlearn.html import render

_DEPTH = 3


def api_page(schema: dict[str, Any]) -> str:
    """A page with every endpoint of an OpenAPI schema, and the fields of its request and of its answer."""
    info = schema["info"]
    parts = [f"<h1>{escape(info['title'])}: HTTP API</h1><p>{escape(info['description'])} "]
    parts.append('The same as a schema for programs: <a href="openapi.json">openapi.json</a>.</p>')
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2><code>{method.upper()} {escape(path)}</code></h2>")
            parts.append(f"<p>{escape(operation.get('description', ''))}</p>")
            parts += _tables(schema, operation)
    return render("server/api.html", body="".join(parts))


def _tables(schema: dict[str, Any], operation: dict[str, Any]) -> Iterator[str]:
    answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    for title, part in (("Request", operation.get("requestBody")), ("Answer", answers[0] if answers else None)):
        body = (part or {}).get("content", {}).get("application/json", {}).get("schema", {})
        rows = list(_rows(schema, body, "", _DEPTH))
        if rows:
            head = "<tr><th>field</th><th>type</th><th>meaning</th></tr>"
            table = f"<table>{head}{''.join(rows)}</table>"
            yield f'<h3>{title}</h3><div class="scroll" tabindex="0" role="group">{table}</div>'


def _rows(schema: dict[str, Any], part: dict[str, Any], before: str, depth: int) -> Iterator[str]:
    """A row for each field, and for the fields of what it holds."""
    part = _followed(schema, part)
    required = part.get("required", [])
    for name, field in part.get("properties", {}).items():
        meaning = escape(str(field.get("description", "")))
        if name in required:
            meaning = f"required. {meaning}"
        elif field.get("default") is not None:
            meaning = f"{meaning} Default: <code>{escape(str(field['default']))}</code>"
        yield f"<tr><td><code>{escape(before + name)}</code></td><td>{escape(_type(field))}</td><td>{meaning}</td></tr>"
        if depth:
            inner = field.get("items", field)
            mark = "[]." if "items" in field else "."
            yield from _rows(schema, inner, f"{before}{name}{mark}", depth - 1)


def _followed(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """A part of the schema, or the one that it refers to."""
    if "$ref" not in part:
        return part
    return schema["components"]["schemas"][part["$ref"].rpartition("/")[2]]


def _type(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(each) for each in field["anyOf"] if each.get("type") != "null"))
    if "enum" in field:
        return " or ".join(f'"{value}"' for value in field["enum"])
    if "const" in field:
        return f'"{field["const"]}"'
    if "items" in field:
        return f"list of {_type(field['items'])}"
    return str(field.get("type", "object"))
