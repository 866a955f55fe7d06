"""From a config and the public facts to a design, and from `job.json` back to one; it costs nothing, sees no record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privot.common.arguments import check_delta, check_epsilon
from privot.errors import DataError, PrivotError, UsageError
from privot.mechanisms.mechanism import Facts
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.design import Design
from privot.synthesis.methods import method_named
from privot.synthesis.methods.method import SynthesisMethod
from privot.synthesis.neural.public.public_images import check_given


def method_of(config: SynthesisConfig) -> SynthesisMethod:
    """The method that `config` asks for."""
    return method_named(config.method, config.kind)


def plan(config: SynthesisConfig, facts: Facts) -> Design:
    """What `config` would release and train on records with these `facts`."""
    if config.class_names is not None and len(config.class_names) != facts.classes:
        raise UsageError(f"There are {len(config.class_names)} class names for {facts.classes or 'no'} classes.")
    if facts.whole_units and not config.kind.whole_units:
        raise UsageError("This vault holds related tables: give the synthesizer their RelatedCodec as kind.")
    if (config.encoder is not None or config.label_encoder is not None) and not config.shape:
        raise UsageError(
            "An encoder gives features of images to the method embedding: state their shape, or leave it out."
        )
    if config.encoder is not None and config.features is not None:
        raise UsageError("Give features or an encoder, not both: a Stack joins EncoderFeatures with other maps.")
    if config.label_encoder is not None and config.encoder is None:
        raise UsageError("An encoder for labels stands beside one for pictures: give that one too, or leave it out.")
    check_given(config.public, config.shape)
    return method_of(config).plan(config, facts)


def read_design(fields: Mapping[str, Any], config: SynthesisConfig, device: str) -> Design:
    """The design that a job wrote down as `fields`, which anybody may have changed since: it is read or refused."""
    check_epsilon(config.epsilon), check_delta(config.delta)
    try:
        return method_of(config).read_design(fields, config, device)
    except PrivotError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # a chained error would quote what the file holds
        raise DataError(f"This does not describe a synthesis ({type(error).__name__}).") from None
