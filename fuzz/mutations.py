"""Ways to damage a valid file: bytes, JSON fields, TOML lines, members of a zip, cells of a table, bombs."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zipfile
from pathlib import Path
from random import Random
from typing import Any

from fuzz.values import field


def mutate(path: Path, random: Random, bombs: float = 0.03) -> str:
    """Damage `path` in one way that suits it, a share `bombs` of the time by a bomb; says which."""
    content = path.read_bytes()
    name = path.name.lower()
    roll = random.random()
    if roll < bombs:
        return _bomb(path, random)
    roll = random.random()
    if roll < 0.06:
        return _replace(path, random)
    if roll < 0.35:
        path.write_bytes(mutated_bytes(content, random))
        return "bytes"
    for kind, fits, mutated in (
        ("zip", content[:2] == b"PK", mutated_zip),
        ("gzip", content[:2] == b"\x1f\x8b", _mutated_gzip),
        ("json", name.endswith(".json") or content[:1] == b"{", mutated_json),
        ("safetensors", name.endswith(".safetensors"), mutated_safetensors),
        ("text", name.endswith((".toml", ".csv", ".txt", ".pub", ".pem")), mutated_text),
    ):
        if fits:
            try:
                path.write_bytes(mutated(content, random))
                return kind
            except Exception:  # what an earlier mutation damaged may not be of its kind any more
                break
    path.write_bytes(mutated_bytes(content, random))
    return "bytes"


def _mutated_gzip(content: bytes, random: Random) -> bytes:
    return gzip.compress(mutated_text(gzip.decompress(content), random))


def mutated_bytes(content: bytes, random: Random) -> bytes:
    """Truncated, extended, or with some bits flipped, bytes removed or repeated."""
    held = bytearray(content)
    way = random.randrange(6)
    if way == 0 or not held:
        return bytes(held[: random.randrange(len(held) + 1)])
    if way == 1:
        return bytes(held) + random.randbytes(random.choice([1, 16, 5000]))
    if way == 2:
        return b""
    for _ in range(random.choice([1, 1, 4, 64])):
        at = random.randrange(len(held))
        if way == 3:
            held[at] ^= 1 << random.randrange(8)
        elif way == 4:
            held[at : at + random.choice([1, 4, 100])] = b""
        else:
            held[at:at] = random.choice([b"\x00", b"\xff" * 8, bytes(held[at : at + 50])])
        if not held:
            break
    return bytes(held)


def mutated_json(content: bytes, random: Random) -> bytes:
    """One or a few fields replaced, removed or added; or text that is not quite JSON."""
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):
        return mutated_bytes(content, random)
    if random.random() < 0.1:
        deep = 100_000
        return random.choice(
            [b"[" * deep, b'{"a":' * deep, b"[" * deep + b"]" * deep, b"null", b"[]", b"1" * 5000, b'{"a": 1e999999}']
        )
    for _ in range(random.choice([1, 1, 1, 3])):
        tree = _edited(tree, random)
    try:
        text = json.dumps(tree)
    except RecursionError:
        return b"[" * 100_000
    if random.random() < 0.05:
        text = text.replace("{", '{"epsilon": 0.1, "epsilon": 1e9, ', 1)
    return text.encode()


def _edited(tree: Any, random: Random) -> Any:
    places = list(_places(tree))
    if not places:
        return field(random)
    parent, key = random.choice(places)
    way = random.random()
    if way < 0.2:
        del parent[key]
    elif way < 0.3 and isinstance(parent, dict):
        parent[random.choice(["", "new", "__class__", "schema", "epsilon"])] = field(random)
    elif way < 0.4 and isinstance(parent, list):
        parent.append(parent[key])
    elif way < 0.6 and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
        factor = random.choice([-1, 2, 1000, 1e9, 1e-9])
        # an edit before this one may have left an integer that no float holds
        parent[key] = factor * parent[key] if abs(parent[key]) < 1e290 else -parent[key]
    else:
        parent[key] = field(random)
    return tree


def _places(tree: Any) -> Any:
    """All (container, key) of a tree, however deep: an edit before this one may have made it so."""
    waiting = [tree]
    while waiting:
        held = waiting.pop()
        if isinstance(held, dict | list):
            for key in list(held) if isinstance(held, dict) else range(len(held)):
                yield held, key
                waiting.append(held[key])


def mutated_text(content: bytes, random: Random) -> bytes:
    """A line removed, repeated or moved; a value or a cell replaced."""
    lines = content.decode("utf-8", "replace").split("\n")
    at = random.randrange(len(lines))
    way = random.randrange(6)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(at, lines[random.randrange(len(lines))])
    elif way == 2:
        lines[at] = "\x00\ufeff" + lines[at]
    elif way == 3:
        lines[at] = lines[at] * 2000
    elif way == 4 and random.random() < 0.3:
        lines[at] = "a = " + "[" * 5000
    else:
        new = random.choice(["", "nan", "-1", "1e999", "1" + "0" * 400, '"x"', "[]", "{}", "true", "9" * 30, "é\u202e"])
        lines[at] = re.sub(r"(?<=[=,])[^,=]*$|^[^,=]*(?=,)", lambda _: new, lines[at], count=1)
    return "\n".join(lines).encode("utf-8", "replace")


def mutated_zip(content: bytes, random: Random) -> bytes:
    """One member damaged, removed, repeated or added, the others as they are."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(item.filename, archive.read(item)) for item in archive.infolist()]
            kind = archive.infolist()[0].compress_type
    except Exception:
        return mutated_bytes(content, random)
    at = random.randrange(len(members))
    name, body = members[at]
    way = random.random()
    if way < 0.1:
        del members[at]
    elif way < 0.15:
        members.append(members[at])
    elif way < 0.2:
        members.append((random.choice(["../evil", "/abs", "x" * 1000, "new.npy"]), b"1"))
    elif body[:1] == b"{":
        members[at] = name, mutated_json(body, random)
    elif body[:6] == b"\x93NUMPY":
        members[at] = name, mutated_npy(body, random)
    else:
        members[at] = name, mutated_bytes(body, random)
    out = io.BytesIO()
    import warnings

    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", kind) as archive:
        warnings.simplefilter("ignore")
        for member, held in members:
            archive.writestr(zipfile.ZipInfo(member), held, compress_type=kind)
    return out.getvalue()


def mutated_npy(body: bytes, random: Random) -> bytes:
    """The header edited, or the numbers damaged."""
    import numpy as np

    if random.random() < 0.5:
        new = random.choice([b"(1000000000, 1000000000)", b"(-1,)", b"(0,)", b"()", b"(3,)", b"(" * 100])
        return re.sub(rb"\([0-9, ]*\)", new, body, count=1)
    if random.random() < 0.3:
        return re.sub(rb"'[<|>][a-z][0-9]+'", random.choice([b"'|O'", b"'<c16'", b"'<U9'", b"'<i1'"]), body, count=1)
    array = np.lib.format.read_array(io.BytesIO(body), allow_pickle=False).copy()
    if array.size and array.dtype.kind in "fiu":
        with np.errstate(all="ignore"):
            bad = random.choice([float("nan"), float("inf"), -1.0, 1e300, 0.0, 1e-320])
            flat = array.reshape(-1)
            where = slice(None) if random.random() < 0.3 else random.randrange(array.size)
            flat[where] = np.asarray(bad).astype(array.dtype)
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def mutated_safetensors(content: bytes, random: Random) -> bytes:
    """The header edited, its length kept right; the digest inside no longer fits then."""
    if len(content) < 8 or random.random() < 0.2:
        return mutated_bytes(content, random)
    (length,) = struct.unpack("<Q", content[:8])
    if random.random() < 0.2:
        return struct.pack("<Q", random.choice([0, 2**63, 2**40, length + 1])) + content[8:]
    head = mutated_json(content[8 : 8 + length], random)
    return struct.pack("<Q", len(head)) + head + content[8 + length :]


def _replace(path: Path, random: Random) -> str:
    """The file gone, a folder, a link to nowhere, to itself or to a file elsewhere."""
    path.unlink()
    way = random.randrange(5)
    if way == 1:
        path.mkdir()
    elif way == 2:
        path.symlink_to("nowhere")
    elif way == 3:
        path.symlink_to(path.name)
    elif way == 4:
        path.symlink_to("/etc/hostname")
    return ("removed", "folder", "dangling link", "loop", "link out")[way]


def _bomb(path: Path, random: Random) -> str:
    """A small file that asks for gigabytes."""
    import numpy as np

    name, size = path.name.lower(), 3 << 30
    content = path.read_bytes()
    if content[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {item.filename: archive.read(item) for item in archive.infolist()}
        arrays = [member for member in members if member.endswith(".npy")]
        target = random.choice(arrays or list(members))
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            head, {"descr": "<f8", "fortran_order": False, "shape": (size // 8 // 4, 4)}
        )
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for member, body in members.items():
                if member != target:
                    archive.writestr(member, body)
            with archive.open(target, "w", force_zip64=True) as file:
                file.write(head.getvalue())
                block = bytes(1 << 24)
                for _ in range(size >> 24):
                    file.write(block)
        return "bomb: zip"
    if name.endswith(".gz"):
        with gzip.open(path, "wb", compresslevel=1) as file:
            block = b"0,0,0\n" * (1 << 20)
            for _ in range(400):
                file.write(block)
        return "bomb: gzip"
    if name.endswith((".json", ".toml")):
        path.write_bytes(b'{"a": [' + b"[0]," * 5_000_000 + b"0]}")
        return "bomb: JSON"
    with path.open("r+b") as file:
        file.truncate(size)
    return "bomb: sparse file"
