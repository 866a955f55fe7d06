"""From what somebody asks for and the public facts to a design, for any method; it costs nothing and sees no record."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from privot.accounting import calibrate, embedding
from privot.accounting.events import Composed, Event, Gaussian, leaves, repeated
from privot.common import arguments
from privot.common.image_axes import image_axes
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import MeanEmbedding
from privot.mechanisms.mechanism import Facts
from privot.synthesis.defaults.embedding_defaults import (
    Problem,
    Rules,
    choose_features,
    choose_labelling,
    choose_rules,
    choose_warp_selection,
    labelling_of,
)
from privot.synthesis.defaults.streaming_defaults import embedding_options
from privot.synthesis.design import METHODS, SynthesisDesign, strategy_of, usable_device
from privot.synthesis.features.fourier import public_range
from privot.synthesis.refinement.relabelling import Labelling, check_seen
from privot.synthesis.refinement.warp_selection import WarpSelection, check_warps
from privot.synthesis.tabular.table_design import TableDesign
from privot.transport.slice_directions import check_seed, fresh_seed

if TYPE_CHECKING:
    from privot.synthesis.synthesizer import Synthesizer


def plan(asked: Synthesizer, facts: Facts) -> SynthesisDesign | TableDesign:
    """What `asked` would release and train on records with these `facts`."""
    if asked.method not in METHODS:
        raise UsageError(f"Unknown method {asked.method!r}: say {' or '.join(METHODS)}.")
    if asked.codec is not None:
        if asked.shape is not None or asked.features is not None or asked.rules is not None or asked.options:
            raise UsageError("What is released of a table follows from its schema: leave out the rest.")
        return TableDesign.choose(asked.codec, facts, asked.method, asked.epsilon, asked.delta, asked.seed)
    device = usable_device(asked.device)
    public_range(asked.low, asked.high, facts.dim)
    shape = _shape(asked, facts)
    records = facts.records
    if asked.records is not None:
        records = arguments.whole("The stated number of records", asked.records, 1)
    labels, classes, delta = facts.classes is not None, facts.classes or 1, float(asked.delta)
    seed = fresh_seed() if asked.seed is None else check_seed(asked.seed)
    if asked.method != "embedding":
        if asked.features is not None or asked.rules is not None:
            raise UsageError(f"The method {asked.method} takes options, not features or rules.")
        problem = Problem(facts.dim, classes, math.nan, records, shape, device)
        terms, span = (asked.epsilon, asked.delta), (asked.low, asked.high)
        mechanism, rules = strategy_of(asked.method).design(problem, facts, terms, span, asked.options or {})
        if rules.options.get("labelled"):
            mechanism, rules = _with_labels(mechanism, rules, facts, problem, terms)
        design = SynthesisDesign(mechanism, rules, seed, delta, facts.adjacency, facts, asked.method)
        design.check_standing(asked.allow_unproven)
        return design
    options = embedding_options(asked.options or {})
    if options and asked.rules is not None:
        raise UsageError("Rules say how samples are labelled, too: leave out the options.")
    sigma = embedding(adjacency=facts.adjacency, delta=asked.delta, epsilon=asked.epsilon).sigma
    problem = Problem(facts.dim, classes, sigma, records, shape, device)
    if asked.rules is None:
        labelling = choose_labelling(problem) if labels else None
        if "labelled" in options:
            labelling = labelling_of(problem, options["labelled"]) if options["labelled"] else None
        choosing = choose_warp_selection(problem, facts.adjacency) if labels else None
    else:
        labelling = Labelling.from_dict(asked.rules.options.get("labelling"))
        choosing = WarpSelection.from_dict(asked.rules.options.get("choosing"))
    if labelling is not None:
        if shape is None or not labels:
            raise UsageError("Only images of several classes can be labelled: leave out the labelling.")
        labelling.check(shape, classes, records, facts.records)
        sigma = beside(sigma, facts.adjacency, labelling.event(facts.adjacency))
    if choosing is not None:
        if shape is None or not labels:
            raise UsageError("Only for images of several classes is a warp chosen: leave out the choosing.")
        check_seen(shape)
        sigma = beside(sigma, facts.adjacency, choosing.event(facts.adjacency))
    problem = replace(problem, sigma=sigma)
    features = asked.features or choose_features(problem, seed, asked.low, asked.high)
    rules = asked.rules or choose_rules(problem)
    if choosing is not None:
        check_warps(rules.generator)
    parts = {"labelling": labelling, "choosing": choosing}
    rules = replace(
        rules, options={**rules.options, **{name: p.to_dict() for name, p in parts.items() if p is not None}}
    )
    return SynthesisDesign(
        MeanEmbedding(features, sigma, labels, device=device), rules, seed, delta, facts.adjacency, facts
    )


def beside(sigma: float, adjacency: Adjacency, event: Event) -> float:
    """The noise σ₁ of a Gaussian release that together with `event`, made of Gaussian ones, costs what `sigma` costs.

    Δ²/σ₁² = Δ²/σ² − Σ (Δᵢ/σᵢ)², and a little more noise, so that rounding cannot make both cost more.
    """
    reach, taken = adjacency.sensitivity(1.0), 0.0
    for leaf, times in leaves(event):
        assert isinstance(leaf, Gaussian)
        taken += times * (leaf.sensitivity / leaf.sigma) ** 2
    whole = (reach / sigma) ** 2
    if not taken < whole * (1.0 - 2e-6):
        raise UsageError("What is released beside the means would cost the whole budget: raise its noise.")
    return (1.0 + 1e-9) * reach / math.sqrt(whole - taken)


def _with_labels(
    mechanism: Any, rules: Rules, facts: Facts, problem: Problem, terms: tuple[float, float]
) -> tuple[Any, Rules]:
    """A stream's mechanism with so much more noise that all of its steps and a labeller cost what is asked for."""
    epsilon, delta = terms
    whole = embedding(adjacency=facts.adjacency, delta=delta, epsilon=epsilon).sigma
    labelling = labelling_of(replace(problem, sigma=whole), float(rules.options["labelled"]))
    if problem.shape is None or problem.classes < 2:
        raise UsageError("Only images of several classes can be labelled: leave out the labelling.")
    labelling.check(problem.shape, problem.classes, problem.records, facts.records)

    def both(sigma: float) -> Event:
        stream = repeated(replace(mechanism, sigma=sigma).event(facts), rules.steps)
        return Composed((stream, labelling.event(facts.adjacency)))

    sigma = calibrate(both, epsilon=epsilon, delta=delta)
    options = {**rules.options, "labelling": labelling.to_dict()}
    return replace(mechanism, sigma=sigma), replace(rules, options=options)


def _shape(asked: Synthesizer, facts: Facts) -> tuple[int, ...] | None:
    """The public shape of an image, if there is one, checked against the columns."""
    if asked.shape is None:
        return None
    shape = tuple(int(s) for s in asked.shape)
    image_axes(shape)
    if int(np.prod(shape)) != facts.dim:
        raise UsageError(f"An image of shape {shape} has {np.prod(shape)} values, a record has {facts.dim}.")
    return shape
