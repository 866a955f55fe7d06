"""Reads what `torch.export.save` wrote, from its JSON and its raw weights; nothing is unpickled, no code is run.

The archive holds `models/model.json` (nodes, each an operator with named arguments) and `data/weights`. The pickled
example inputs that lie beside them are not read. A tensor's numbers are those of its own part of the archive, whose
length is known before the file's claims about sizes and strides are believed. Everything else that the JSON says is of
one of a few plain types, and bounded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from privot.errors import DataError, PrivotError
from privot.opening.archives import Archive
from privot.opening.json_toml import parse_json
from privot.synthesis.neural.encoders.operators import apply
from privot.synthesis.neural.encoders.tape import RefusedEncoderError, Tape

MODEL = "models/model.json"
_SCHEMA = 8
_DTYPES = {
    1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 6: torch.float16, 7: torch.float32,
    8: torch.float64, 12: torch.bool, 13: torch.bfloat16,
}  # fmt: skip
"""Number types by their number in the file."""
_STRIDED = 7
_PLAIN: dict[str, tuple[type, ...]] = {
    "as_int": (int,), "as_ints": (int,), "as_float": (float, int), "as_floats": (float, int), "as_bool": (bool,),
    "as_bools": (bool,), "as_string": (str,),
}  # fmt: skip
_MOST_NUMBERS, _MOST_TENSORS, _WHOLE = 64, 4096, 2**63
"""Items of a list of numbers and of tensors, and the first whole number that is too large."""


def read_exported(archive: Archive, tape: Tape) -> list[Any]:
    """What the program in `archive` returns for the input of `tape`, to which its steps are added."""
    try:
        (model,) = (name for name in archive.names if name == MODEL or name.endswith("/" + MODEL))
        root = model.removesuffix(MODEL)
        program = parse_json(archive.read(model), f"{archive.name!r}")
        if root + "byteorder" in archive.names and archive.read(root + "byteorder") != b"little":
            raise RefusedEncoderError(
                "The encoder was saved on a machine of another byte order: export it on this one."
            )
        if program["schema_version"]["major"] != _SCHEMA:
            raise RefusedEncoderError(
                f"The encoder {archive.name!r} has the schema {program['schema_version']['major']}, privot reads "
                f"{_SCHEMA}: export it again with the PyTorch that is installed here."
            )
        return _Program(archive, root, program["graph_module"], tape).outputs()
    except PrivotError:
        raise
    except Exception as error:  # a damaged program can raise nearly anything; no record has been seen yet
        raise DataError(
            f"The encoder {archive.name!r} is not a program that torch.export.save wrote ({type(error).__name__})."
        ) from None


class _Program:
    """One exported program, with what every name stands for."""

    def __init__(self, archive: Archive, root: str, module: Mapping[str, Any], tape: Tape) -> None:
        self._archive, self._root, self._tape = archive, root, tape
        self._graph, signature = module["graph"], module["signature"]
        self._known: dict[str, Any] = {}
        self._uses = Counter(_names(self._graph["nodes"], self._graph["outputs"]))
        stored = {"weights": self._stored("weights"), "constants": self._stored("constants")}
        images = 0
        for spec in signature["input_specs"]:
            ((kind, fields),) = spec.items()
            if kind == "user_input":
                name, images = fields["arg"]["as_tensor"]["name"], images + 1
                self._name(name, tape.input)
                tape.exported_rows = self._graph["tensor_values"][name]["sizes"][0].get("as_int")
            elif kind in ("parameter", "buffer", "tensor_constant"):
                place = fields.get("parameter_name") or fields.get("buffer_name") or fields["tensor_constant_name"]
                self._name(fields["arg"]["name"], (kind, place))
            else:
                raise RefusedEncoderError(f"The encoder takes a {kind.replace('_', ' ')}: images are all that it gets.")
        if images != 1:
            raise RefusedEncoderError(f"The encoder takes {images} inputs: one tensor of images is what it gets.")
        for spec in signature["output_specs"]:
            if set(spec) != {"user_output"}:
                raise RefusedEncoderError(
                    "The encoder writes into its buffers, so that an image's features would depend on others: export "
                    "it in evaluation mode, without counters or other state."
                )
        self._tensors = {**stored["constants"], **stored["weights"]}

    def _stored(self, folder: str) -> dict[str, tuple[str, Mapping[str, Any]]]:
        name = f"{self._root}data/{folder}/model_{folder}_config.json"
        held = parse_json(self._archive.read(name), f"{self._archive.name!r}")["config"]
        return {key: (f"{self._root}data/{folder}/{entry['path_name']}", entry) for key, entry in held.items()}

    def outputs(self) -> list[Any]:
        """What the program returns."""
        for node in self._graph["nodes"]:
            self._take(node)
        return [self._value(argument) for argument in self._graph["outputs"]]

    def _take(self, node: Mapping[str, Any]) -> None:
        target, inputs = node["target"], node["inputs"]
        if target == "torch.ops.aten._assert_tensor_metadata.default":
            return
        name = target.removeprefix("torch.ops.").split(".")
        operator = f"{name[0]}::{name[1]}" if target.startswith("torch.ops.") and len(name) >= 2 else target
        if len(name) > 2 and name[2].endswith("out"):
            raise RefusedEncoderError(f"The encoder writes with {operator} into a tensor that it names (out): do not.")
        given = {entry["name"]: entry["arg"] for entry in inputs} if operator.startswith("aten::") else {}
        if operator.startswith("aten::") and len(given) != len(inputs):
            raise ValueError(target)
        named = {key: self._value(argument) for key, argument in given.items()}
        # who else reads what the operator may write into
        first = next(iter(given.get("self", given.get("input", {})).values()), None)
        sole = isinstance(first, Mapping) and self._uses[str(first.get("name"))] == 1
        found = apply(self._tape, operator, named, sole)
        places = node["outputs"]
        if len(places) == 1 and "as_tensors" in places[0]:
            places, several = [{"as_tensor": place} for place in places[0]["as_tensors"]], list(found)
        else:
            several = list(found) if isinstance(found, tuple) else [found]
        for place, value in zip(places, several, strict=True):
            ((kind, held),) = place.items()
            if kind not in ("as_tensor", "as_sym_int"):
                raise RefusedEncoderError(f"The encoder computes a {kind.removeprefix('as_')} on the way.")
            self._name(held["name"] if kind == "as_tensor" else held["as_name"], value)

    def _name(self, name: Any, value: Any) -> None:
        if type(name) is not str or name in self._known:
            raise ValueError(name)
        self._known[name] = value

    def _value(self, argument: Mapping[str, Any]) -> Any:
        ((kind, held),) = argument.items()
        if kind in _PLAIN:
            return self._plain(kind, held)
        if kind == "as_none":
            return None
        if kind == "as_tensor":
            return self._tensor(held["name"])
        if kind in ("as_tensors", "as_sym_ints") and len(held) > _MOST_TENSORS:
            raise RefusedEncoderError(f"The encoder gives an operator more than {_MOST_TENSORS} tensors at once.")
        if kind == "as_tensors":
            return [self._tensor(entry["name"]) for entry in held]
        if kind == "as_sym_int":
            return self._whole(held)
        if kind == "as_sym_ints":
            return [self._whole(entry) for entry in held]
        if kind == "as_optional_tensor":
            return self._value(held)
        if kind == "as_scalar_type":
            return str(_DTYPES.get(held) if type(held) is int else None).removeprefix("torch.")
        if kind in ("as_memory_format", "as_layout", "as_device"):
            return kind
        raise RefusedEncoderError(f"The encoder gives an operator a {kind.removeprefix('as_').replace('_', ' ')}.")

    def _plain(self, kind: str, held: Any) -> Any:
        """A number, a text, or a list of numbers, each of the type that its name says."""
        several = kind.endswith("s")
        items = held if several else [held]
        if type(items) is not list or not all(type(item) in _PLAIN[kind.removesuffix("s")] for item in items):
            raise ValueError(kind)
        if len(items) > _MOST_NUMBERS or any(type(item) is int and abs(item) >= _WHOLE for item in items):
            raise RefusedEncoderError(
                f"The encoder gives an operator more than {_MOST_NUMBERS} numbers, or larger ones."
            )
        return items if several else held

    def _whole(self, entry: Mapping[str, Any]) -> Any:
        return self._known[entry["as_name"]] if "as_name" in entry else self._plain("as_int", entry["as_int"])

    def _tensor(self, name: str) -> Any:
        value = self._known[name]
        if isinstance(value, tuple):
            # a tensor of the file, read when it is first needed
            path, entry = self._tensors[value[1]]
            value = self._known[name] = self._tape.constant(self._read(path, entry))
        return value

    def _read(self, path: str, entry: Mapping[str, Any]) -> torch.Tensor:
        if entry["use_pickle"]:
            raise RefusedEncoderError("The encoder holds a pickled tensor, which is never read: export plain tensors.")
        meta = entry["tensor_meta"]
        sizes, strides = ([_count(n) for n in meta[key]] for key in ("sizes", "strides"))
        offset, dtype = _count(meta["storage_offset"]), _DTYPES.get(meta["dtype"])
        if dtype is None or meta["layout"] != _STRIDED or len(sizes) != len(strides):
            raise RefusedEncoderError(
                "The encoder holds complex, sparse, quantised or other tensors that privot does not read: export plain "
                "real ones."
            )
        count = math.prod(sizes)
        if not count:
            return torch.zeros(sizes, dtype=dtype)
        held = self._archive.read(path)
        # any byte but 0 is True: the others are no values of the type
        flat = torch.frombuffer(bytearray(held), dtype=torch.uint8 if dtype is torch.bool else dtype)
        flat = flat != 0 if dtype is torch.bool else flat
        last = offset + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
        if last >= len(flat) or count > len(flat):
            raise DataError(f"A tensor in {self._archive.name!r} is longer than its file: the file is damaged.")
        return flat.as_strided(sizes, strides, offset)


def _count(entry: Mapping[str, Any]) -> int:
    found = entry["as_int"]
    if type(found) is not int or not 0 <= found < _WHOLE:
        raise ValueError(found)
    return found


def _names(*parts: Any) -> Iterator[str]:
    """Every name of a tensor that nodes read or the program returns."""
    for part in parts:
        for entry in part:
            arguments = [given["arg"] for given in entry["inputs"]] if "inputs" in entry else [entry]
            for argument in arguments:
                yield from _tensors_of(argument)


def _tensors_of(argument: Any) -> Iterator[str]:
    if isinstance(argument, Mapping):
        if isinstance(argument.get("name"), str):
            yield argument["name"]
        for value in argument.values():
            yield from _tensors_of(value)
    elif isinstance(argument, list):
        for value in argument:
            yield from _tensors_of(value)
