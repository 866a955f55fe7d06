"""Attacks on public encoders: whatever is accepted treats each row by itself, to the last bit, and stays bounded."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_networks import DIM, SHAPE, honest, saved
from torch import Tensor, nn
from torch.nn import functional

from privot.errors import PrivotError, UsageError
from privot.synthesis import PublicEncoder
from privot.synthesis.neural.encoders import arithmetic_checks as checks
from privot.synthesis.neural.encoders import exact_arithmetic as exact
from privot.synthesis.neural.encoders import tape as tapes
from privot.synthesis.neural.encoders.operators import OPERATORS, apply
from privot.synthesis.neural.encoders.tape import ROWS, RefusedEncoderError, Rows, Tape
from privot.synthesis.neural.features.encoder_features import EncoderFeatures

COMPANY = (2, 16, 17)
"""Rows that are evaluated together; MAX_COPIES, the only number of its kind in the code, is 16."""
ENDS = [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1e-300, 1e-160, 1.0, -1.0, 1e100, 2.0**399, 2.0**400, -1e300, 1.7e308]


class Net(nn.Module):
    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def made(function: Callable[[Tensor], Any], folder: Path) -> EncoderFeatures:
    module = function if isinstance(function, nn.Module) else Net(function)
    return EncoderFeatures(PublicEncoder(saved(module, folder)), SHAPE, 4, [0.5], 1)


def weighted(layer: Any, weights: Tensor) -> nn.Module:
    """A layer with these weights, behind nothing or what flattens an image."""
    layer.weight = nn.Parameter(weights.reshape(layer.weight.shape))
    return nn.Sequential(nn.Flatten(), layer) if isinstance(layer, nn.Linear) else layer


def flat_image(x: Tensor) -> Tensor:
    """All rows as one image with one channel: the axis of the rows is its height."""
    return x.flatten(1)[None, None]


def filled(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    out.copy_(x.flip(0))
    return out.flatten(1)


HOSTILE: dict[str, Callable[[Tensor], Any]] = {
    "flip": lambda x: x.flip(0).flatten(1),
    "shift": lambda x: x.flatten(1) + torch.cat([x[-1:], x])[: x.size(0)].flatten(1),
    "cumsum": lambda x: x.cumsum(0).flatten(1),
    "top": lambda x: x.flatten(1) - x.flatten(1).topk(1, dim=0)[0],
    "order": lambda x: x.flatten(1).argsort(dim=0).float(),
    "expand": lambda x: x[:1].expand_as(x).flatten(1),
    "view": lambda x: x.reshape(-1, x.size(0)).t().reshape(x.size(0), -1),
    "folded": lambda x: x.reshape(8, -1, 24).transpose(0, 1).reshape(-1, 192),
    "index": lambda x: x[torch.arange(x.size(0)).flip(0)].flatten(1),
    "index_select": lambda x: x.index_select(0, torch.zeros(x.size(0), dtype=torch.int64)).flatten(1),
    "gather": lambda x: x.flatten(1).gather(0, (x.flatten(1) * 0.0).long()),
    "scatter": lambda x: torch.zeros_like(x.flatten(1)).scatter(0, (x.flatten(1) * 0.0).long(), x.flatten(1)),
    "scatter_add": lambda x: x.flatten(1).scatter_add(0, (x.flatten(1) * 0.0).long(), x.flatten(1)),
    "attention": lambda x: torch.softmax(x.flatten(1) @ x.flatten(1).t(), dim=1) @ x.flatten(1),
    "scaled_attention": lambda x: functional.scaled_dot_product_attention(*[x.flatten(1)[None]] * 3)[0],
    "convolved": lambda x: functional.conv2d(flat_image(x), torch.ones(1, 1, 3, 1), padding=(1, 0))[0, 0],
    "pooled": lambda x: functional.avg_pool2d(flat_image(x), (3, 1), 1, (1, 0))[0, 0],
    "largest": lambda x: functional.max_pool2d(flat_image(x), (3, 1), 1, (1, 0))[0, 0],
    "adaptive": lambda x: x.flatten(1) - functional.adaptive_avg_pool2d(flat_image(x), (1, 192))[0, 0],
    "resized": lambda x: functional.interpolate(flat_image(x), scale_factor=(1.0, 1.0), mode="bilinear")[0, 0],
    "einsum": lambda x: torch.einsum("ij,kj->ik", x.flatten(1), x.flatten(1)),
    "padded": lambda x: functional.pad(x, [0, 0, 0, 0, 0, 0, 1, 0])[:-1].flatten(1),
    "repeated": lambda x: x.repeat(2, 1, 1, 1)[: x.size(0)].flatten(1),
    "grouped": lambda x: functional.group_norm(x.reshape(1, 3, -1), 1).reshape(-1, 192),
    "layer": lambda x: functional.layer_norm(x.flatten(1).t(), [x.size(0)]).t(),
    "instance": lambda x: functional.instance_norm(x.transpose(0, 1)).transpose(0, 1).flatten(1),
    "spread": lambda x: x.flatten(1) / x.std(dim=0).flatten(),
    "longest": lambda x: x.flatten(1) / x.norm(),
    "smallest": lambda x: x.flatten(1) - x.min(),
    "condition": lambda x: torch.where(x.sum() > 0, x, -x).flatten(1),
    "counted": lambda x: x.flatten(1) / x.shape[0],
    "numbered": lambda x: x.flatten(1) * torch.arange(x.shape[0])[:, None],
    "constant_count": lambda x: x.flatten(1) + torch.full((1, 1), x.shape[0]),
    "filled": filled,
    "strided": lambda x: x.contiguous().as_strided((x.size(0), 192), (1, x.size(0))),
    "noise": lambda x: (x + torch.randn_like(x)).flatten(1),
    "coin": lambda x: torch.bernoulli(x).flatten(1),
    "slopes": lambda x: functional.rrelu(x, training=True).flatten(1),
    "dropped": lambda x: functional.dropout2d(x, 0.5, training=True).flatten(1),
    "half": lambda x: x.half().float().flatten(1),
    "whole": lambda x: (x * 1e30).long().float().flatten(1),
    "distances": lambda x: torch.cdist(x.flatten(1), x.flatten(1)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_maps_that_look_at_their_neighbours_count_rows_or_draw_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(RefusedEncoderError) as found:
        made(HOSTILE[name], tmp_path)
    assert str(found.value).endswith(".")
    assert str(found.value).count(". ") == 0


def hostile_rows(count: int, size: int, seed: int) -> Tensor:
    """Rows of usual numbers, of numbers of any size, and with single numbers at the ends of what float64 holds."""
    dice, rows = np.random.default_rng(seed), np.random.default_rng(seed).normal(size=(count, size))
    for row in rows[::3]:
        row *= 10.0 ** dice.integers(-300, 300)
    for row in rows[1::3]:
        row[dice.integers(0, size, 3)] = dice.choice([*ENDS, math.inf, math.nan], 3)
    return torch.from_numpy(rows)


def check_company(run: Callable[[Tensor], Tensor], rows: Tensor, others: Tensor) -> None:
    """Row i is the same to the last bit alone, beside 1, 15 and 16 rows, and beside different ones."""
    alone = [run(row[None])[0] for row in rows]
    for count in COMPANY:
        together = run(rows[:count])
        for i in range(count):
            assert torch.equal(together[i], alone[i])
        for i in range(0, len(rows), 4):
            place, company = (5 * i) % count, others[:count].clone()
            company[place] = rows[i]
            assert torch.equal(run(company)[place], alone[i])


EXTREME: dict[str, Callable[[Tensor], Any]] = {
    "overflow": lambda x: (x * 1e38 * 1e38 * 1e38 * 1e38 * 1e38 * 1e38 * 1e38 * 1e38 * 1e38).flatten(1),
    "underflow": lambda x: (x * 1e-200 * 1e-115 * 1e200 * 1e115).flatten(1),
    "zeros": lambda x: torch.tanh(torch.reciprocal(torch.relu(-x))).flatten(1),
    "quotient": lambda x: (x / (x - 0.5)).flatten(1),
    "roots": lambda x: torch.sqrt(x - 0.5).flatten(1),
    "steep": lambda x: torch.sigmoid((x - 0.5) * 1e30).flatten(1),
    "large_weights": weighted(nn.Conv2d(3, 2, 3), torch.full((54,), 1e37)),
    "unlike_weights": weighted(nn.Linear(DIM, 5), torch.logspace(-40, 38, 5 * DIM)),
    "own_norm": lambda x: functional.layer_norm(x.flatten(1) * 1e-30, [192], eps=0.0),
}


@pytest.mark.gate(3)
@pytest.mark.parametrize("name", EXTREME)
def test_features_are_bounded_and_of_one_row_whatever_the_numbers(name: str, tmp_path: Path) -> None:
    features = made(EXTREME[name], tmp_path)
    rows, others = hostile_rows(17, DIM, 1), hostile_rows(17, DIM, 2)
    with torch.no_grad():
        check_company(features.codes, rows, others)
        phi = features.features(torch.cat([rows, others]))
    assert bool(torch.isfinite(phi).all())
    assert float(torch.linalg.vector_norm(phi, dim=1).max()) <= 1.0


class Draws:
    """Arguments for operators, honest and not, from one seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def constant(self, tape: Tape, sizes: list[int] | None = None) -> Any:
        chosen = [self.dice.choice([1, 1, 2, 3, 16, 17]) for _ in range(self.dice.randint(0, 4))]
        values = np.random.default_rng(self.dice.randrange(2**31)).normal(size=chosen if sizes is None else sizes)
        return tape.constant(torch.from_numpy(np.asarray(values * 10.0 ** self.dice.choice([0, 0, 0, -150, 150]))))

    def weights(self, name: str, tape: Tape, rows: list[Rows]) -> Any:
        like = self.dice.choice(rows).sizes or (1,)
        sizes = [[2, like[-1]], [2, like[0], 2, 1], [4, 1, 1, 2]] if name in ("weight", "mat2") else []
        return self.constant(tape, self.dice.choice([*sizes, [like[0]], [like[-1]]]))

    def shape(self, rows: list[Rows]) -> Any:
        sizes = self.dice.choice(rows).sizes
        whole: list[Any] = [self.dice.choice([ROWS, ROWS, -1, 1, 2, 16]), *sizes]
        if self.dice.random() < 0.4:
            self.dice.shuffle(whole)
        other = [ROWS, self.dice.choice([-1, math.prod(sizes)])]
        return self.dice.choice([whole, other, list(sizes), [-1], self.dice.choice(rows)])

    def of(self, name: str, tape: Tape, rows: list[Rows]) -> Any:
        pick = self.dice.choice
        if name in ("self", "input", "mat1"):
            return pick(rows) if self.dice.random() < 0.95 else self.constant(tape)
        if name in ("weight", "bias", "running_mean", "running_var", "mat2"):
            return pick([None, self.weights(name, tape, rows), self.weights(name, tape, rows), pick(rows)])
        if name == "other":
            return pick([pick(rows), pick(rows), self.constant(tape), 2.5, 0, 1e300, ROWS])
        if name == "tensors":
            return [pick(rows) for _ in range(self.dice.randint(1, 3))]
        if name in ("size", "shape", "normalized_shape"):
            return self.shape(rows)
        if name == "dims":
            order = list(range(1, self.dice.randint(2, 4)))
            self.dice.shuffle(order)
            return pick([[0, *order], [0, *order], [*order, 0]])
        if name in ("dim", "dim0", "dim1", "start_dim", "end_dim"):
            return pick([self.dice.randint(-3, 3), self.dice.randint(1, 3), [1, 2], [0], None])
        if name == "pad":
            return [self.dice.randint(-1, 2) for _ in range(pick([2, 4, 6, 8]))]
        if name in ("kernel_size", "stride", "padding", "dilation", "output_size"):
            return pick([1, 1, 2, [1, 2], 0, "same", ROWS])
        if name in ("training", "train", "transposed"):
            return pick([False, False, False, True])
        return pick([None, 1, 1, 2, -1, 0.3, 1e-5, 1e300, True, "float32", ROWS, 2**62])


@pytest.mark.slow
@pytest.mark.gate(2)
@pytest.mark.parametrize("seed", range(4))
def test_random_programs_keep_their_rows_apart(seed: int) -> None:
    """Operators of the list in any order, with any arguments: refused, or a row is the same in any company."""
    draws, done, used = Draws(seed), 0, set()
    while done < 40:
        tape = Tape(draws.dice.choice([(2, 2, 2), (3, 4, 4), (2,), (17,), (16, 2)]))
        tape.exported_rows, rows = draws.dice.choice([None, 1, 2, 16, 17]), [tape.input]
        for _ in range(12):
            name = draws.dice.choice(sorted(OPERATORS))
            asked = [p for p in inspect.signature(OPERATORS[name]).parameters.values() if p.name[0] != "_"][1:]
            given = {
                p.name: draws.of(p.name, tape, rows) for p in asked if p.default is p.empty or draws.dice.random() < 0.5
            }
            try:
                found = apply(tape, f"aten::{name}", given, True)
            except PrivotError:
                continue
            several = found if isinstance(found, list | tuple) else [found]
            rows += [value for value in several if isinstance(value, Rows)]
            used.add(name)
        try:
            tape.finish(rows[-3:])
            tape.rehearse()
        except PrivotError:
            continue
        done += 1

        def run(x: Tensor, tape: Tape = tape) -> Tensor:
            outputs, finite = tape.run_checked(x.reshape(len(x), *tape.input.sizes))
            flat = torch.cat([part.reshape(len(x), -1) for part in outputs], dim=1)
            return torch.where(finite[:, None], flat, math.pi)

        check_company(run, *(hostile_rows(17, tape.input.numbers, 2 * done + k) for k in (0, 1)))
    assert len(used) > 40


def test_threads_that_take_small_numbers_for_zero_are_refused(tmp_path: Path) -> None:
    """A mode of one thread: with it the features of a row would depend on the thread, and so on its company."""
    features = made(EXTREME["underflow"], tmp_path)
    x = hostile_rows(3, DIM, 5)
    checks.check_smallest_numbers()
    if not torch.set_flush_denormal(True):
        pytest.skip("This processor has no such mode.")
    try:
        with pytest.raises(PrivotError, match="smallest numbers"):
            features.codes(x)
        with pytest.raises(PrivotError, match="smallest numbers"):
            features._tape.rehearse()
    finally:
        torch.set_flush_denormal(False)
    features.codes(x)


def test_products_with_fewer_digits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    checks.check_products()
    usual = torch.matmul

    def short(a: Tensor, b: Tensor) -> Tensor:
        return usual(a, b) if a.dtype is torch.int64 else usual(a.float(), b.float()).double()

    monkeypatch.setattr(torch, "matmul", short)
    with pytest.raises(PrivotError, match="fewer digits"):
        checks.check_products()


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")], ids=repr)
def test_too_little_memory_stops_a_release_and_loses_no_record(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that counted as zero because the machine was full would change by more than its own part."""
    features, x = made(lambda x: x.flatten(1), tmp_path), hostile_rows(4, DIM, 6)
    usual, run = features.codes(x), features._tape.run_checked

    def full(images: Tensor, least: int) -> tuple[list[Tensor], Tensor]:
        if len(images) > least:
            raise error
        return run(images)

    monkeypatch.setattr(features._tape, "run_checked", lambda images: full(images, 1))
    assert torch.equal(features.codes(x), usual)
    monkeypatch.setattr(features._tape, "run_checked", lambda images: full(images, 0))
    with pytest.raises(PrivotError, match="too little memory"):
        features.codes(x)


def test_rows_of_another_length_are_refused(tmp_path: Path) -> None:
    features = made(lambda x: x.flatten(1), tmp_path)
    for wrong in (torch.zeros(1, 2 * DIM), torch.zeros(2, DIM // 2), torch.zeros(DIM), torch.zeros(1, 1, DIM)):
        with pytest.raises(UsageError, match="takes rows of 192"):
            features.codes(wrong.double())


def test_effort_width_and_pieces_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def flat(*sizes: int) -> tuple[Tape, Rows]:
        tape = Tape(sizes)
        return tape, apply(tape, "aten::flatten", {"self": tape.input, "start_dim": 1}, True)

    tape, row = flat(3, 256, 256)
    with pytest.raises(RefusedEncoderError, match="more than 65536"):
        tape.finish([row])
    with pytest.raises(RefusedEncoderError, match="more than 20000 parts"):
        apply(tape, "aten::chunk", {"self": row, "chunks": 2**40, "dim": 1}, True)
    tape, row = flat(3, 8, 8)
    for chunks in (0, -1, True, 2.0, ROWS):
        with pytest.raises(RefusedEncoderError):
            apply(tape, "aten::chunk", {"self": row, "chunks": chunks, "dim": 1}, True)
    for chunks in (1, 5, 7, 191, 192, 300):
        parts = apply(tape, "aten::chunk", {"self": row, "chunks": chunks, "dim": 1}, True)
        assert [part.sizes for part in parts] == [part.shape[1:] for part in torch.zeros(2, 192).chunk(chunks, 1)]
    # (16 · (192 + 100) + 2 · 192 · 100) for the product, 16 · 384 for the flattening
    tape, row = flat(3, 8, 8)
    done = apply(tape, "aten::linear", {"input": row, "weight": tape.constant(torch.ones(100, 192))}, True)
    monkeypatch.setattr(tapes, "MAX_EFFORT", 16 * 292 + 2 * 19_200 + 16 * 384)
    tape.finish([done])
    monkeypatch.setattr(tapes, "MAX_EFFORT", tapes.MAX_EFFORT - 1)
    with pytest.raises(RefusedEncoderError, match="too long"):
        tape.finish([done])


def test_functions_of_public_tensors_and_windows_are_bounded_before_they_are_computed() -> None:
    tape = Tape((1, 1024, 1024))
    large = tape.constant(torch.ones(2**24 + 1))
    with pytest.raises(RefusedEncoderError, match="more than 268435456 weights"):
        apply(tape, "aten::sigmoid", {"self": large}, True)
    for name in ("avg_pool2d", "max_pool2d"):
        with pytest.raises(RefusedEncoderError, match="windows that are too large"):
            apply(tape, f"aten::{name}", {"self": tape.input, "kernel_size": 600, "stride": 1}, True)


def test_windows_of_adaptive_pooling_are_those_of_the_library(tmp_path: Path) -> None:
    x = torch.rand(2, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for sizes in ((3, 5), (8, 1), (11, 8)):
        tape = Tape(SHAPE)
        tape.finish([apply(tape, "aten::adaptive_avg_pool2d", {"self": tape.input, "output_size": list(sizes)}, True)])
        torch.testing.assert_close(tape.run(x)[0], functional.adaptive_avg_pool2d(x, sizes), atol=1e-12, rtol=0.0)


def test_an_honest_network_is_the_same_in_any_company(tmp_path: Path) -> None:
    features = EncoderFeatures(PublicEncoder(saved(honest(), tmp_path)), SHAPE, 4, [0.5], 1)
    with torch.no_grad():
        check_company(features.codes, hostile_rows(17, DIM, 3), hostile_rows(17, DIM, 4))


def test_a_program_for_one_number_of_rows_reshapes_each_row_by_itself() -> None:
    for rows, first, known in ((1, 1, True), (2, 2, True), (2, 1, False), (None, 1, False), (None, 2, False)):
        tape = Tape(SHAPE)
        tape.exported_rows = rows
        given = {"self": tape.input, "size": [first, 192]}
        if not known:
            with pytest.raises(RefusedEncoderError, match="rows would mix"):
                apply(tape, "aten::view", given, True)
            continue
        tape.finish([apply(tape, "aten::view", given, True)])
        x = torch.arange(5.0 * DIM).reshape(5, *SHAPE).double()
        assert torch.equal(tape.run(x)[0], x.flatten(1))


@pytest.mark.parametrize("scale", [0, 390, -390, -400])
def test_norms_of_the_widest_layer_are_known_better_than_the_margin_of_the_features(scale: int) -> None:
    """One large number and as many small ones as there may be, each rounded down by nearly half a unit."""
    unit = 2.0**-35
    x = np.full(tapes.MAX_WIDTH, (2.0**27 + 0.499) * unit)
    x[0] = 1.0
    found = float(exact.norms(torch.from_numpy(np.ldexp(x, scale))[None], (1,)))
    wanted = math.ldexp(math.sqrt(math.fsum(x * x)), scale)
    # rounding shows, and is far from 2⁻²⁰
    assert 0.0 < abs(found / wanted - 1.0) <= 2.0**-22
