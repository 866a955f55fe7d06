"""Encoders whose features of an image would depend on more than that image are refused, in one sentence."""

from __future__ import annotations

import inspect
import io
import json
import math
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from encoder_networks import (
    REFUSED,
    SHAPE,
    Chance,
    Copying,
    Counting,
    Honest,
    Neighbours,
    Restoring,
    Running,
    honest,
    named,
    saved,
    scripted,
)
from torch import nn

from privot.errors import DataError, UsageError
from privot.synthesis import PublicEncoder
from privot.synthesis.neural.encoders.operators import OPERATORS, apply
from privot.synthesis.neural.encoders.tape import ROWS, RefusedEncoderError, Rows, Tape
from privot.synthesis.neural.features.encoder_features import EncoderFeatures


def refused(path: Path) -> str:
    with pytest.raises(RefusedEncoderError) as found:
        EncoderFeatures(PublicEncoder(path), SHAPE, 4, [0.5], 1)
    said = str(found.value)
    # one sentence
    assert said.endswith(".")
    assert said.count(". ") == 0
    return said


@pytest.mark.parametrize("module", REFUSED, ids=named)
def test_encoders_that_look_beyond_one_image_are_refused(module: nn.Module, tmp_path: Path) -> None:
    refused(saved(module, tmp_path))


@pytest.mark.gate(2)
@pytest.mark.parametrize("module", [Counting(), Copying(), Running(), Neighbours(), Chance()], ids=named)
def test_state_that_export_has_made_explicit_is_refused(module: nn.Module, tmp_path: Path) -> None:
    # the writing has become an output of the program: every operator of it is pure
    said = refused(saved(module, tmp_path, "decomposed"))
    assert ("writes into its buffers" in said) == bool(dict(module.named_buffers()))


def of_rows(tape: Tape, *sizes: int) -> Rows:
    """Rows with as many numbers along every axis as there are rows, so that no size gives a mistake away."""
    return tape.add(lambda x: x.reshape(len(x), -1)[:, : math.prod(sizes)].reshape(len(x), *sizes), tape.input)


def _statistics(tape: Tape) -> list[Any]:
    return [tape.constant(torch.zeros(2)), tape.constant(torch.ones(2))]


def _single(tape: Tape) -> Rows:
    """One number a row: rows are the only axis."""
    return tape.add(lambda x: x.reshape(len(x), -1)[:, 0], tape.input)


def called(tape: Tape, name: str, given: list[Any]) -> Any:
    """An operator with its arguments in their order; one too many stands where `out` would."""
    names = [p.name for p in inspect.signature(OPERATORS[name]).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    return apply(tape, f"aten::{name}", dict(zip([*names[1:], "out"], given, strict=False)), True)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("select", lambda x, t: [x, 0, 1]),
        ("select", lambda x, t: [x, -3, 1]),
        ("slice", lambda x, t: [x, 0, 1, 2]),
        ("slice", lambda x, t: [x, 0, 0, 2]),
        ("slice", lambda x, t: [x, 0, None, None, -1]),
        ("stack", lambda x, t: [[x, x], 0]),
        ("cat", lambda x, t: [[x, x], 0]),
        ("chunk", lambda x, t: [x, 2, 0]),
        ("transpose", lambda x, t: [x, 0, 1]),
        ("transpose", lambda x, t: [x, 2, -3]),
        ("permute", lambda x, t: [x, [1, 0, 2]]),
        ("permute", lambda x, t: [x, [-2, 0, 2]]),
        ("flatten", lambda x, t: [x, 0, 1]),
        ("flatten", lambda x, t: [x]),
        ("squeeze", lambda x, t: [x]),
        ("unsqueeze", lambda x, t: [x, 0]),
        ("view", lambda x, t: [x, [2, 4]]),
        ("view", lambda x, t: [x, [-1, 2]]),
        ("view", lambda x, t: [x, [-1]]),
        ("view", lambda x, t: [x, [4, ROWS]]),
        ("reshape", lambda x, t: [x, [2, ROWS, 2]]),
        ("expand", lambda x, t: [x, [2, 2, 2, 2]]),
        ("expand_as", lambda x, t: [of_rows(t, 2), x]),
        ("mean", lambda x, t: [x]),
        ("mean", lambda x, t: [x, [0], True]),
        ("sum", lambda x, t: [x, [-3, 1], False]),
        ("amax", lambda x, t: [x, [0]]),
        ("amax", lambda x, t: [x]),
        ("norm", lambda x, t: [x, 2, [0], True]),
        ("linalg_vector_norm", lambda x, t: [x, 2, None, True]),
        ("layer_norm", lambda x, t: [x, [2, 2, 2]]),
        ("layer_norm", lambda x, t: [x, [2], t.constant(torch.ones(2, 1))]),
        ("layer_norm", lambda x, t: [x, [2], t.constant(torch.ones(2, 1, 1))]),
        ("layer_norm", lambda x, t: [x, [2], t.constant(torch.ones(1, 1, 1, 2))]),
        ("layer_norm", lambda x, t: [x, [2], None, t.constant(torch.ones(2, 1, 1, 2))]),
        ("layer_norm", lambda x, t: [x, [2, 2], t.constant(torch.ones(2))]),
        ("group_norm", lambda x, t: [x, 1, t.constant(torch.ones(2, 2))]),
        ("group_norm", lambda x, t: [x, 1, None, t.constant(torch.ones(1))]),
        ("batch_norm", lambda x, t: [x, t.constant(torch.ones(2, 1)), None, *_statistics(t), False]),
        ("batch_norm", lambda x, t: [x, None, t.constant(torch.ones(2, 1, 1)), *_statistics(t), False]),
        ("batch_norm", lambda x, t: [_single(t), None, None, *_statistics(t), False]),
        ("linear", lambda x, t: [x, t.constant(torch.ones(2, 2)), t.constant(torch.ones(2, 1))]),
        ("addmm", lambda x, t: [t.constant(torch.ones(2, 1)), of_rows(t, 2), t.constant(torch.ones(2, 2))]),
        ("add", lambda x, t: [x, of_rows(t, 2)]),
        ("mul", lambda x, t: [x, t.constant(torch.ones(2, 1, 1))]),
        ("mul", lambda x, t: [t.constant(torch.ones(2, 2, 2, 2)), x]),
        ("mul", lambda x, t: [x, ROWS]),
        ("add", lambda x, t: [ROWS, 1]),
        ("matmul", lambda x, t: [x, x]),
        ("matmul", lambda x, t: [t.constant(torch.ones(2, 2)), x]),
        ("linear", lambda x, t: [x, x]),
        ("t", lambda x, t: [of_rows(t, 2)]),
        ("pad", lambda x, t: [x, [0, 0, 0, 0, 1, 0]]),
        ("to", lambda x, t: [x, 1]),
        # overloads that write into their last argument
        ("sqrt", lambda x, t: [x, x]),
        ("add", lambda x, t: [x, x, 1, x]),
        ("div", lambda x, t: [x, x, x]),
        ("matmul", lambda x, t: [x, t.constant(torch.ones(2, 2)), x]),
        ("norm", lambda x, t: [x, 2, [1], True, None, x]),
        ("amax", lambda x, t: [x, [1], True, x]),
        ("cat", lambda x, t: [[x, x], 1, x]),
    ],
)
def test_no_operator_touches_the_axis_of_the_rows_or_writes(
    name: str, given: Callable[[Rows, Tape], list[Any]]
) -> None:
    tape = Tape((2, 2, 2))
    with pytest.raises(RefusedEncoderError):
        called(tape, name, given(of_rows(tape, 2, 2), tape))


def test_what_touches_the_rows_is_refused_by_the_tape_too() -> None:
    """Steps that no operator of the list makes: whatever number of rows a public tensor was made for."""
    for wrong in (
        lambda x: x * torch.ones(2, 1, 1, 1, device=x.device),
        lambda x: x * torch.ones(3, 1, 1, 1, device=x.device),
        lambda x: x * torch.ones(6, 1, 1, 1, 1, device=x.device),
        lambda x: x * torch.ones(1, 1, 1, 1, 1, device=x.device),
        lambda x: x[:1],
        lambda x: x.reshape(-1, 2),
        lambda x: x.reshape(len(x) * 2, -1),
        lambda x: x.reshape(1, -1),
        lambda x: x.mean(),
        lambda x: x.reshape(len(x), -1)[:, : len(x)],
    ):
        with pytest.raises((RefusedEncoderError, RuntimeError)):
            Tape((2, 2, 2)).add(wrong, Tape((2, 2, 2)).input)


def test_rows_that_meet_on_the_way_are_not_used() -> None:
    for wrong in (lambda x: x[:1], lambda x: torch.cat([x, x]), lambda x: x.reshape(len(x), -1), lambda x: x[None]):
        tape = Tape((2, 2, 2))
        # shapes without numbers do not show it
        row = tape.add(lambda x, wrong=wrong: x if x.device.type == "meta" else wrong(x), tape.input)
        tape.finish([row])
        with pytest.raises(RefusedEncoderError, match="rows apart"):
            tape.run_checked(torch.zeros(2, 2, 2, 2, dtype=torch.float64))
        with pytest.raises(RefusedEncoderError, match="cannot be evaluated"):
            tape.rehearse()
    tape = Tape((2, 2, 2))
    tape.finish([tape.add(lambda x: x if x.device.type == "meta" else x - x.mean(dim=0), tape.input)])
    with pytest.raises(RefusedEncoderError, match="beside other images"):
        tape.rehearse()


def test_a_network_left_in_training_mode_is_refused(tmp_path: Path) -> None:
    refused(saved(Honest().train(), tmp_path))
    assert "batch norm in training mode" in refused(saved(Running(), tmp_path))


@pytest.mark.parametrize("ending", [".py", ".PY"])
def test_torchscript_is_refused_before_anything_of_it_runs(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def loaded(*_: Any, **__: Any) -> None:
        raise AssertionError("PyTorch's own reader was called")

    path = scripted(Restoring(), tmp_path)
    (tmp_path / "stolen.pt").unlink(missing_ok=True)
    other, held = tmp_path / "other.pt", io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(held, "w") as new:
        for name in old.namelist():
            new.writestr(name.removesuffix(".py") + ending if name.endswith(".py") else name, old.read(name))
    other.write_bytes(held.getvalue())
    for reader in ("torch.jit.load", "torch.load", "torch.export.load"):
        monkeypatch.setattr(reader, loaded)
    with pytest.raises(DataError, match=r"TorchScript.*torch\.export\.export\(module\.eval\(\), \(example,\)\)"):
        PublicEncoder(other)
    assert not (tmp_path / "stolen.pt").exists()
    # nor are these called for a network that is read
    EncoderFeatures(PublicEncoder(saved(nn.Flatten(), tmp_path)), SHAPE, 4, [0.5], 1)


def test_the_list_holds_no_operator_that_writes_draws_or_shows() -> None:
    for name in OPERATORS:
        assert not name.endswith("_")
        words = ("rand", "bernoulli", "normal_", "empty", "print", "save", "resize", "copy_", "set_", "manual_seed")
        assert not any(word in name for word in words), name


@pytest.mark.parametrize("content", [b"", b"no network", b"PK\x03\x04 broken"])
@pytest.mark.parametrize("name", ["e.pt", "e.pt2"])
def test_files_that_are_no_network_are_bad_data(content: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        PublicEncoder(tmp_path / name)
    with pytest.raises(DataError, match="cannot be read"):
        PublicEncoder(tmp_path / "absent.pt")


class Explosive:
    def __reduce__(self) -> Any:
        return (open, ("exploded", "w"))


def test_pickles_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(Explosive(), tmp_path / "pickled.pt")
    with pytest.raises(DataError, match=r"torch\.save"):
        PublicEncoder(tmp_path / "pickled.pt")
    # the example inputs of an exported program are a pickle beside it: PyTorch opens it, privot does not
    path = saved(honest(), tmp_path, "export")
    changed = rewritten(path, lambda name, held: pickle.dumps(Explosive()) if name.endswith(".pt") else held)
    EncoderFeatures(PublicEncoder(changed), SHAPE, 4, [0.5], 1)
    assert not (tmp_path / "exploded").exists()


def rewritten(path: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """The archive with some of its files changed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    other = path.with_name("changed-" + path.name)
    other.write_bytes(buffer.getvalue())
    return other


def in_model(change: Callable[[dict[str, Any]], None], file: str = "model.json") -> Callable[[str, bytes], bytes]:
    def made(name: str, held: bytes) -> bytes:
        if not name.endswith(file):
            return held
        fields = json.loads(held)
        change(fields)
        return json.dumps(fields).encode()

    return made


def first_weight(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(fields: dict[str, Any]) -> None:
        entry = fields["config"]["first.weight"]
        entry["tensor_meta"].update(changes)
        entry.update({key: value for key, value in changes.items() if key in entry})

    return change


WEIGHTS = "model_weights_config.json"


def first_node(fields: dict[str, Any], name: str, argument: str, value: dict[str, Any]) -> None:
    """Give the first call of an operator another argument, or one more."""
    nodes = fields["graph_module"]["graph"]["nodes"]
    inputs = next(node["inputs"] for node in nodes if node["target"] == f"torch.ops.aten.{name}.default")
    inputs[:] = [entry for entry in inputs if entry["name"] != argument]
    inputs.append({"name": argument, "arg": value, "kind": 2})


@pytest.mark.parametrize(
    "change",
    [
        in_model(lambda fields: fields["schema_version"].update(major=7)),
        in_model(lambda fields: fields["graph_module"]["graph"]["nodes"].pop(3)),
        in_model(lambda fields: fields["graph_module"]["graph"]["nodes"].__setitem__(0, {"target": "os.system"})),
        in_model(lambda fields: fields["graph_module"]["signature"]["input_specs"].pop()),
        in_model(lambda fields: fields.update(graph_module=[])),
        in_model(first_weight(sizes=[{"as_int": 10**9}], strides=[{"as_int": 0}]), WEIGHTS),
        in_model(first_weight(strides=[{"as_int": 10**6}] * 4), WEIGHTS),
        in_model(first_weight(storage_offset={"as_int": -4}), WEIGHTS),
        in_model(first_weight(use_pickle=True), WEIGHTS),
        in_model(first_weight(path_name="../../../etc/passwd"), WEIGHTS),
        # complex, sparse, more numbers than there are, by a stride of 0 or by a size alone, and a number no file holds
        in_model(first_weight(dtype=10), WEIGHTS),
        in_model(first_weight(layout=1), WEIGHTS),
        in_model(first_weight(sizes=[{"as_int": 601}], strides=[{"as_int": 0}]), WEIGHTS),
        in_model(first_weight(sizes=[{"as_int": 601}], strides=[{"as_int": 1}]), WEIGHTS),
        in_model(first_weight(sizes=[{"as_int": 2**63}], strides=[{"as_int": 0}]), WEIGHTS),
        in_model(lambda fields: first_node(fields, "conv2d", "stride", {"as_ints": [10**30, 1]})),
        in_model(lambda fields: first_node(fields, "conv2d", "padding", {"as_ints": [1] * 65})),
        in_model(lambda fields: first_node(fields, "conv2d", "padding", {"as_ints": [40_000, 40_000]})),
        in_model(lambda fields: first_node(fields, "conv2d", "groups", {"as_int": True})),
        in_model(lambda fields: first_node(fields, "conv2d", "groups", {"as_int": 0})),
        in_model(lambda fields: first_node(fields, "adaptive_avg_pool2d", "output_size", {"as_ints": [65_535] * 2})),
        in_model(lambda fields: first_node(fields, "conv2d", "out", {"as_tensor": {"name": "x"}})),
        in_model(lambda fields: fields["graph_module"]["graph"]["nodes"][0].update(target="torch.ops.aten.sub.out")),
    ],
)
def test_damaged_programs_end_in_one_sentence(change: Any, tmp_path: Path) -> None:
    path = rewritten(saved(honest(), tmp_path, "export"), change)
    with pytest.raises((DataError, UsageError)) as found:
        EncoderFeatures(PublicEncoder(path), SHAPE, 4, [0.5], 1)
    assert str(found.value).count(". ") == 0


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    module = honest()
    with torch.no_grad():
        module.first.weight[0, 0, 0, 0] = float("nan")
    with pytest.raises(UsageError, match="not finite"):
        EncoderFeatures(PublicEncoder(saved(module, tmp_path)), SHAPE, 4, [0.5], 1)


def test_sizes_ranges_and_shares_out_of_range_are_refused(tmp_path: Path) -> None:
    path = saved(honest(), tmp_path)
    for wrong in ({"size": 0}, {"size": 4096}, {"value_range": (1.0, 1.0)}, {"value_range": (0.0, float("nan"))}):
        with pytest.raises(UsageError):
            PublicEncoder(path, **wrong)
    with pytest.raises(UsageError, match="share"):
        EncoderFeatures(PublicEncoder(path), SHAPE, 4, [0.5], 1, share=1.0)
    with pytest.raises(RefusedEncoderError, match="channels"):
        EncoderFeatures(PublicEncoder(saved(nn.Conv2d(5, 2, 1), tmp_path, shape=(5, 8, 8))), SHAPE, 4, [0.5], 1)
