"""Seeded changes: to bytes, to JSON, to rows of a store, and to the members of an archive."""

from __future__ import annotations

import io
import json
import random
import re
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

_NUMBERS = ("0", "-1", "1e999", "9" * 400, "-0.0", "NaN", "1e-9", "null", "true", '""', "[]", "{}", "[" * 2000)
_CELLS = ("NULL", "''", "x''", "'[[['", "7", "-1", "1e300", "zeroblob(32)", "'9999999999'", "'" + "[" * 5000 + "'")
_ROWS = {
    "runs": "key shared_seed sample digests history samples error family about",
    "documents": "json",
    "audits": "json digest",
    "contents": "digest data",
}


def mutate(path: Path, rng: random.Random) -> str:
    """Change a file, or one file of a folder, and return how."""
    if path.is_dir():
        path = rng.choice(sorted(path.iterdir()))
    ways = ["flip", "byte", "cut", "splice", "delete", "insert"]
    ways += {".json": ["json"] * 6, ".npz": ["zip"] * 6, ".sqlite": ["row"] * 6, ".toml": ["token"] * 6}.get(
        path.suffix, []
    )
    way = rng.choice(ways)
    if way == "row":
        _change_row(path, rng)
    elif way == "json":
        path.write_text(_changed_json(path.read_text(), rng))
    elif way == "token":
        path.write_text(_changed_token(path.read_text(), rng))
    elif way == "zip":
        path.write_bytes(_changed_zip(path.read_bytes(), rng))
    else:
        path.write_bytes(_changed_bytes(bytearray(path.read_bytes()), way, rng))
    return way


def _changed_bytes(data: bytearray, way: str, rng: random.Random) -> bytes:
    at, length = rng.randrange(len(data) + 1), rng.choice((1, 2, 8, 64, 512))
    if way == "cut":
        del data[at:]
    elif way == "splice":
        source = rng.randrange(len(data) + 1)
        data[at : at + length] = data[source : source + length]
    elif way == "delete":
        del data[at : at + length]
    elif way == "insert":
        data[at:at] = rng.randbytes(length)
    elif data:
        for _ in range(rng.choice((1, 1, 1, 4))):
            i = rng.randrange(len(data))
            data[i] = data[i] ^ (1 << rng.randrange(8)) if way == "flip" else rng.randrange(256)
    return bytes(data)


def _changed_json(text: str, rng: random.Random) -> str:
    """Change, drop, double or rename one value, wherever it is."""
    try:
        root = json.loads(text)
    except (ValueError, RecursionError):
        return text[: rng.randrange(len(text) + 1)]
    marker = f"@{rng.randrange(10**9)}@"
    node: Any = root
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return json.dumps(root)[:-1]
        key = rng.choice(keys)
        if not isinstance(node[key], (dict, list)) or not node[key] or rng.random() < 0.3:
            break
        node = node[key]
    way = rng.choice(("replace", "replace", "drop", "copy", "rename"))
    if way == "drop":
        del node[key]
    elif way == "rename" and isinstance(node, dict):
        node[f"{key}x"] = node.pop(key)
    elif way == "copy":
        node[key] = node[rng.choice(keys)]
    else:
        node[key] = marker
    return json.dumps(root).replace(f'"{marker}"', rng.choice((*_NUMBERS, f'"{rng.randrange(100)}"')))


def _changed_token(text: str, rng: random.Random) -> str:
    """Replace a number or a text of a TOML file."""
    token = rng.choice(list(re.finditer(r'"[^"]*"|[0-9.]+', text)))
    value = rng.choice((*_NUMBERS, "nan", "[1, 2]", "[[1]]", '"chain-v1"', "1979-05-27", str(rng.randrange(100))))
    return text[: token.start()] + value + text[token.end() :]


def _changed_zip(data: bytes, rng: random.Random) -> bytes:
    """Write an archive anew with a member changed, dropped, renamed, doubled or compressed."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(member.filename, archive.read(member)) for member in archive.infolist()]
    except Exception:  # it is no archive any more
        return data[1:]
    i = rng.randrange(len(members))
    name, content = members[i]
    way = rng.choice(("bytes", "bytes", "bytes", "drop", "rename", "bomb"))
    if way == "drop":
        del members[i]
    elif way == "rename":
        members[i] = (rng.choice(("x.npy", "../x", "", "header.json")), content)
    elif way == "bomb":
        members[i] = (name, content[:128] + bytes(rng.choice((1 << 20, 1 << 24))))
    else:
        how = rng.choice(("flip", "byte", "cut", "insert"))
        members[i] = (name, _changed_bytes(bytearray(content), how, rng))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in dict(members).items():
            archive.writestr(name or "empty", content)
    return stream.getvalue()


def _change_row(path: Path, rng: random.Random) -> None:
    """Change a cell of a store."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        table = rng.choice(list(_ROWS))
        column = rng.choice(_ROWS[table].split())
        ids = [id for (id,) in connection.execute(f"SELECT rowid FROM {table}")]
        id, other = rng.choice(ids), rng.choice(ids)
        copied = f"(SELECT {column} FROM {table} WHERE rowid = {other})"
        digit = f"replace({column}, '{rng.randrange(10)}', '{rng.randrange(10)}')"
        value = rng.choice((*_CELLS, copied, copied, digit, digit, "digest" if table in ("runs", "audits") else "id"))
        connection.execute(f"UPDATE OR IGNORE {table} SET {column} = {value} WHERE rowid = {id}")
