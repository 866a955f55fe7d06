"""The attack on a mechanism that the options of `privot audit` describe, with σ computed from ε where that is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.audit.attack import Attack


def attack_on(name: str, **said: Any) -> Attack:
    """The attack on the mechanism `name`; `said` are the options of the command by their names."""
    from privot.accounting import embedding, gradient, projection
    from privot.audit.attacks.dp_sgd_attack import DPSGDAttack
    from privot.audit.attacks.embedding_attack import EmbeddingAttack
    from privot.audit.attacks.gradient_attack import GradientAttack
    from privot.audit.attacks.projection_attack import ProjectionAttack
    from privot.errors import UsageError
    from privot.guarantee import Adjacency

    if said["adjacency"] is None:
        raise UsageError("A mechanism needs --adjacency replace-one or add-remove; there is no default.")
    if (said["sigma"] is None) == (said["epsilon"] is None):
        raise UsageError("A mechanism needs either --sigma or --epsilon.")
    adjacency = Adjacency.parse(said["adjacency"])
    delta, batch, steps, device = said["delta"], said["batch"], said["steps"], said["device"]
    if name == "sketch":
        if batch is not None or steps != 1:
            raise UsageError("A sketch is released once, of all records: leave out --batch and --steps.")
        return _sketch_attack(adjacency, said)
    if name in ("embedding", "counts"):
        if batch is not None or steps != 1:
            raise UsageError("An embedding is released once, of all records: leave out --batch and --steps.")
        plan = embedding(adjacency=adjacency, delta=delta, sigma=said["sigma"], epsilon=said["epsilon"])
        more: dict[str, Any] = (
            {"labels": True, "count_weight": 0.9, "title": "class counts"} if name == "counts" else {}
        )
        return EmbeddingAttack(plan.sigma, delta, adjacency, device=device, **more)
    usual = {"projection": (0.5, 4), "gradient": (0.01, 12), "parameters": (1.0, 5)}[name]
    clip = said["clip"] or usual[0]
    records = said["records"] or max(usual[1], batch or 0)
    terms = {
        "adjacency": adjacency,
        "delta": delta,
        "sigma": said["sigma"],
        "epsilon": said["epsilon"],
        "records": records if batch is not None else None,
        "batch": batch,
        "steps": steps,
        "clip": clip,
    }
    if name == "projection":
        dim, slices, frame = said["dim"], said["slices"] or said["dim"], said["frame"]
        made = projection(dim, slices, frame=frame, **terms)
        return ProjectionAttack(dim, slices, made.sigma, delta, clip, frame, records, batch, steps, device=device)
    made = gradient(clipping="matrix" if name == "gradient" else "per-example", **terms)
    sampling = _sampling(adjacency, records, batch)
    kind = GradientAttack if name == "gradient" else DPSGDAttack
    return kind(made.sigma, delta, sampling, clip, records, steps, device=device)


def _sketch_attack(adjacency: Any, said: dict[str, Any]) -> Attack:
    from privot.accounting import Gaussian, calibrate
    from privot.audit.attacks.sketch_attack import SketchAttack, worst_design
    from privot.errors import UsageError

    dim, sigma = said["dim"], said["sigma"]
    if dim < 2 or said["classes"] < 0:
        raise UsageError("privot audit sketch needs --dim of at least 2, and --classes of at least 0.")
    if sigma is None:
        bound = worst_design(dim).sensitivity(adjacency)
        sigma = calibrate(lambda s: Gaussian(s, bound, adjacency), epsilon=said["epsilon"], delta=said["delta"])
    terms = {"dim": dim, "records": said["records"] or 3, "device": said["device"]}
    return SketchAttack(sigma, said["delta"], adjacency, said["classes"], **terms)


def _sampling(adjacency: Any, records: int, batch: int | None) -> Any:
    from privot.accounting.planning.plan_terms import choose_sampling
    from privot.accounting.sampling import FixedSize, Poisson
    from privot.guarantee import Adjacency

    found = choose_sampling(adjacency, records, batch)
    if found is not None:
        return found
    return Poisson(1.0) if adjacency is Adjacency.ADD_REMOVE else FixedSize(records, records)
