"""Encoders whose features of an image would depend on more than that image are refused, in one sentence."""

from __future__ import annotations

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
    EITHER,
    EXPORTED,
    SCRIPTED,
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
)
from torch import Tensor, nn

from privot.errors import DataError, UsageError
from privot.synthesis import EncoderFeatures, PublicEncoder
from privot.synthesis.encoders.operators import OPERATORS, apply
from privot.synthesis.encoders.tape import ROWS, RefusedEncoderError, Rows, Tape


def refused(path: Path) -> str:
    with pytest.raises(RefusedEncoderError) as found:
        EncoderFeatures(PublicEncoder(path), SHAPE, 4, [0.5], 1)
    said = str(found.value)
    # one sentence
    assert said.endswith(".")
    assert said.count(". ") == 0
    return said


@pytest.mark.parametrize("kind", ["script", "export"])
@pytest.mark.parametrize("module", EITHER, ids=named)
def test_encoders_that_look_beyond_one_image_are_refused(module: nn.Module, kind: str, tmp_path: Path) -> None:
    refused(saved(module, tmp_path, kind))


@pytest.mark.parametrize("module", [Counting(), Copying(), Running(), Neighbours(), Chance()], ids=named)
def test_state_that_export_has_made_explicit_is_refused(module: nn.Module, tmp_path: Path) -> None:
    # the writing has become an output of the program: every operator of it is pure
    said = refused(saved(module, tmp_path, "decomposed"))
    assert ("writes into its buffers" in said) == bool(dict(module.named_buffers()))


def of_rows(tape: Tape, *sizes: int) -> Rows:
    """Rows with as many numbers along every axis as there are rows, so that no size gives a mistake away."""
    return tape.add(lambda x: x.reshape(len(x), -1)[:, : math.prod(sizes)].reshape(len(x), *sizes), tape.input)


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
        ("eq", lambda x, t: [x, 0]),
        ("gt", lambda x, t: [ROWS, 1]),
        ("Bool", lambda x, t: [x]),
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
    tape = Tape(torch.rand(2, 2, 2, 2))
    with pytest.raises(RefusedEncoderError):
        apply(tape, f"aten::{name}", given(of_rows(tape, 2, 2), tape), {}, True)


@pytest.mark.parametrize("module", SCRIPTED, ids=named)
def test_state_output_and_control_flow_of_torchscript_are_refused(
    module: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(saved(module, tmp_path, "script"))
    # refused by reading: nothing of it ran
    assert capfd.readouterr().out == ""
    assert not (tmp_path / "stolen.pt").exists()


@pytest.mark.parametrize("module", EXPORTED, ids=named)
def test_subgraphs_of_exported_programs_are_refused(module: nn.Module, tmp_path: Path) -> None:
    refused(saved(module, tmp_path, "export"))


def test_a_state_that_only_a_branch_touches_is_refused_where_the_branch_is_taken(tmp_path: Path) -> None:
    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            if x.dim() == 4:
                self.seen += 1.0
            return x.flatten(1) + self.seen

    assert "add_" in refused(saved(Hidden(), tmp_path, "script"))


def test_a_network_left_in_training_mode_is_put_into_evaluation_mode_or_refused(tmp_path: Path) -> None:
    # TorchScript can be put into evaluation mode after it was saved; a program that was exported is what it is
    EncoderFeatures(PublicEncoder(saved(Honest().train(), tmp_path, "script")), SHAPE, 4, [0.5], 1)
    refused(saved(Honest().train(), tmp_path, "trace"))
    refused(saved(Honest().train(), tmp_path, "export"))
    assert "batch norm in training mode" in refused(saved(Running(), tmp_path, "trace"))


def test_objects_with_code_that_runs_on_loading_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "__setstate__" in refused(saved(Restoring(), tmp_path, "script"))
    assert not (tmp_path / "stolen.pt").exists()


def test_the_list_holds_no_operator_that_writes_draws_or_shows() -> None:
    for name in OPERATORS:
        assert not name.endswith("_") or name.endswith("__")
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
        in_model(first_weight(dtype=10), WEIGHTS),
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
    for kind in ("script", "export"):
        with pytest.raises(UsageError, match="not finite"):
            EncoderFeatures(PublicEncoder(saved(module, tmp_path, kind)), SHAPE, 4, [0.5], 1)


def test_sizes_ranges_and_shares_out_of_range_are_refused(tmp_path: Path) -> None:
    path = saved(honest(), tmp_path)
    for wrong in ({"size": 0}, {"size": 4096}, {"value_range": (1.0, 1.0)}, {"value_range": (0.0, float("nan"))}):
        with pytest.raises(UsageError):
            PublicEncoder(path, **wrong)
    with pytest.raises(UsageError, match="share"):
        EncoderFeatures(PublicEncoder(path), SHAPE, 4, [0.5], 1, share=1.0)
    with pytest.raises(RefusedEncoderError, match="channels"):
        EncoderFeatures(PublicEncoder(saved(nn.Conv2d(5, 2, 1), tmp_path, "script")), SHAPE, 4, [0.5], 1)
