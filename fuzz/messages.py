"""Cases of damaged messages between organisations: requests, answers, policies, jobs; as bytes, and signed anew.

A message that is signed anew comes from somebody who may speak and says something wrong; one whose bytes were damaged
comes from nobody.
"""

# ruff: noqa: E501 — a call is easier to read in one line

from __future__ import annotations

from pathlib import Path
from random import Random

from fuzz import kit
from fuzz.case import BUDGET, DATA, DONE, UNPROVEN, USAGE, Case, random_of
from fuzz.mutations import mutate, mutated_zip

PARTY = ["in/party0"]
_PROTOCOLS = ("sketch", "triangle", "fedwad")
CALLS: list[tuple[str, list[str], list[str], set[int], str]] = [
    *((f"in/{p}.request", ["@request", f"in/{p}.request"], [], set(), "") for p in _PROTOCOLS),
    *((f"in/{p}.request", ["@handle", f"in/{p}.request"], [*PARTY, "in/hub"], set(), "in/hub") for p in _PROTOCOLS),
    *(
        (f"in/{p}.answer", ["@coordinate", p], ["in/hub", *PARTY, "in/party1", f"in/{p}.toml"], set(), "in/party1")
        for p in _PROTOCOLS
    ),
    *((f"in/{p}.toml", ["@job", f"in/{p}.toml"], [*PARTY, "in/party1"], {USAGE}, "") for p in _PROTOCOLS),
    ("in/party0/policy.toml", ["@desk", "in/party0"], PARTY, {USAGE, BUDGET, UNPROVEN}, ""),
    ("in/party0/records.npz", ["@desk", "in/party0"], PARTY, {USAGE, BUDGET}, ""),
    ("in/party0/asked.jsonl", ["@desk", "in/party0"], PARTY, {BUDGET}, ""),
    ("in/request.json", ["answer", "in/request.json"], [], {UNPROVEN}, ""),
    (
        "in/request.json",
        ["answer", "in/request.json", "in/target.npz", "--epsilon", "5", "--delta", "1e-5", "--out", "out/answer"],
        ["in/target.npz"],
        {BUDGET, UNPROVEN, USAGE},
        "",
    ),
    (
        "in/answer.release",
        ["adapt", "in/source.npz", "--answer", "in/answer.release", "--out", "out/asked", "--device", "cpu"],
        ["in/source.npz", "out/asked"],
        {BUDGET},
        "in/answer.key",
    ),
    ("in/sketch.toml", ["federate", "coordinate", "in/hub", "in/sketch.toml", "--host", "256.0.0.1"], ["in/hub"], {USAGE}, ""),
]  # fmt: skip
"""(the file to damage, the call that reads it, what else it takes, codes beside 0 and 3, whose key may sign it anew)."""


def cases(seed: int, count: int, bombs: float = 0.03) -> list[Case]:
    """`count` cases."""
    return [case(seed, number, bombs) for number in range(count)]


def case(seed: int, number: int, bombs: float = 0.03) -> Case:
    """One message, damaged as bytes or signed anew."""
    random = random_of(seed, "messages", number)
    file, arguments, needs, further, signer = CALLS[number % len(CALLS)]

    def prepare(source: Path, folder: Path) -> None:
        (folder / "out").mkdir(parents=True)
        kit.take(source, folder, [file, *needs])
        if signer and random.random() < 0.7:
            key = source / signer / "signing.key" if (source / signer).is_dir() else source / signer
            (folder / file).write_bytes(signed_anew((folder / file).read_bytes(), key, random))
            (folder / "mutation").write_text("signed anew")
        else:
            (folder / "mutation").write_text(mutate(folder / file, random, bombs))

    codes = frozenset({DONE, DATA} | further)
    return Case("messages", number, arguments, prepare, codes, file)


def signed_anew(content: bytes, key: Path, random: Random) -> bytes:
    """The payload damaged, and signed by somebody who may."""
    from privot.federation.wire.signing import open_sealed, read_key, seal

    return seal(mutated_zip(open_sealed(content).payload, random), read_key(key))
