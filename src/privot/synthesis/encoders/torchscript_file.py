"""Reads TorchScript: the inlined graph of a network becomes a tape; none of the file's own code is run on images.

A branch is decided while the file is read, by public shapes and constants alone; the other branch never runs. Anything
that would depend on an image's numbers, and every loop, is refused.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import torch

from privot.errors import DataError
from privot.opening.archives import Archive
from privot.synthesis.encoders.operators import apply, shared
from privot.synthesis.encoders.tape import RefusedEncoderError, Tape

_CODE = (b"__setstate__", b"__getstate__")
"""Methods of classes that would run while the file is loaded."""


class _Opaque:
    """Something of the file that no operator takes: a function, an object, a device."""


def read_torchscript(data: bytes, archive: Archive, tape: Tape) -> list[Any]:
    """What the network in `data` returns for the input of `tape`, to which its steps are added."""
    for name in archive.names:
        if name.endswith(".py") and any(word in archive.read(name) for word in _CODE):
            raise RefusedEncoderError(
                "The encoder holds objects with code that runs while it is loaded (__setstate__, as quantised networks "
                "do): save a plain network."
            )
    try:
        with warnings.catch_warnings():
            # files of this kind are what people have, though PyTorch wants to give them up
            warnings.simplefilter("ignore")
            module = torch.jit.load(io.BytesIO(data), map_location="cpu").eval()  # type: ignore[no-untyped-call]
            graph = module.inlined_graph
    except Exception as error:
        raise DataError(
            f"The encoder {archive.name!r} is not a network that torch.jit.save wrote ({type(error).__name__})."
        ) from None
    return _Reading(module, graph, tape).outputs()


class _Reading:
    """One walk over a graph, with what every name stands for."""

    def __init__(self, module: Any, graph: Any, tape: Tape) -> None:
        self._tape, self._graph = tape, graph
        names = [value.debugName() for value in graph.inputs()]
        if len(names) != 2:
            raise RefusedEncoderError(
                f"The encoder takes {len(names) - 1} inputs: one tensor of images is what it gets."
            )
        self._known: dict[str, Any] = {names[0]: module, names[1]: tape.input}

    def outputs(self) -> list[Any]:
        """What the graph returns."""
        self._walk(self._graph)
        return [self._of(value) for value in self._graph.outputs()]

    def _of(self, value: Any) -> Any:
        return self._known[value.debugName()]

    def _walk(self, block: Any) -> None:
        for node in block.nodes():
            kind, inputs, outputs = node.kind(), list(node.inputs()), list(node.outputs())
            if kind == "prim::If":
                self._decide(node, inputs, outputs)
                continue
            found = self._found(node, kind, inputs)
            several = found if len(outputs) != 1 and isinstance(found, tuple | list) else [found]
            for output, value in zip(outputs, several, strict=bool(outputs)):
                self._known[output.debugName()] = value

    def _decide(self, node: Any, inputs: list[Any], outputs: list[Any]) -> None:
        decision = self._of(inputs[0])
        if not isinstance(decision, bool):
            raise RefusedEncoderError("The encoder decides something by the numbers of an image: use no such branch.")
        block = list(node.blocks())[0 if decision else 1]
        self._walk(block)
        for output, value in zip(outputs, block.outputs(), strict=True):
            self._known[output.debugName()] = shared(self._of(value))

    def _found(self, node: Any, kind: str, inputs: list[Any]) -> Any:
        given = [self._of(value) for value in inputs] if kind != "prim::Constant" else []
        if kind == "prim::Constant":
            return self._constant(node)
        if kind == "prim::GetAttr":
            return self._attribute(given[0], node.s("name"))
        if kind in ("prim::ListConstruct", "prim::TupleConstruct"):
            return list(given)
        if kind in ("prim::ListUnpack", "prim::TupleUnpack"):
            return [shared(value) for value in given[0]] if len(given[0]) != 1 else shared(given[0][0])
        if kind in (
            "prim::NumToTensor",
            "prim::unchecked_cast",
            "aten::ScalarImplicit",
            "prim::unchecked_unwrap_optional",
        ):
            return shared(given[0])
        if kind == "prim::RaiseException":
            raise RefusedEncoderError("The encoder refuses images of this shape with an error of its own.")
        return apply(self._tape, kind, given, {}, bool(inputs) and len(inputs[0].uses()) == 1)

    def _constant(self, node: Any) -> Any:
        output = node.output()
        value = output.toIValue()
        if value is None and str(output.type()) != "NoneType":
            return _Opaque()
        return self._value(value)

    def _attribute(self, owner: Any, name: str) -> Any:
        if not isinstance(owner, torch.jit.ScriptModule) or name.startswith("__"):
            raise RefusedEncoderError("The encoder reads an attribute of something else than a module.")
        return self._value(getattr(owner, name))

    def _value(self, value: Any) -> Any:
        """A value of the file, as operators take it; lists are read once and are constants from then on."""
        if isinstance(value, torch.Tensor):
            return self._tape.constant(value)
        if value is None or type(value) in (bool, int, float, str) or isinstance(value, torch.jit.ScriptModule):
            return value
        if type(value) in (list, tuple):
            return [self._value(item) for item in value]
        return _Opaque()
