"""Runs a job among parties by exchanging signed bytes over any channel; every answer is on disk at once.

A folder holds `job.json` (the job), `sent/` and `got/` (each request and each accepted answer) and, in the end,
`result.json`. A restarted coordinator repeats the same steps, finds the answers on disk and requests only the rest,
with the exact bytes that it sent before. A party that is late, refuses, leaves or sends false answers is left out; the
result names it and the reason. A coordinator sees requests and answers only, never a record.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.common.files import lock_folder, private_file, private_folder, write_whole
from privot.errors import DataError, PrivotError, UsageError
from privot.federation.coordination.answers import Answer, checked, sketch_in
from privot.federation.coordination.federated_job import FederatedJob
from privot.federation.coordination.requests import MAX_NUMBERS, MAX_QUESTIONS, MAX_ROUNDS, Request
from privot.federation.protocols.answering import NO_PRIVACY, Steps
from privot.federation.sketches.signed_sketch import Sketch
from privot.federation.sketches.sketch_matrix import Matrix, copies, distance_matrix
from privot.federation.wire.messages import MAX_BYTES, Question
from privot.federation.wire.signing import public_name
from privot.opening import read_bytes, read_json

LATE = "did not answer in time"
ABSENT = "never connected: no node with its key joined before the deadline (is `privot federate join` running there?)"
COPIED = "sent the same release as another party"


class Channel(Protocol):
    """What carries the bytes. Everything that comes through it is untrusted input."""

    def exchange(self, requests: Mapping[str, bytes], wait: float) -> Iterator[tuple[str, bytes | str]]:
        """Send each party (by signing key) its request; yield (party, answer) or (party, reason of failure).

        Ends after `wait` seconds; a party without an answer by then is late.
        """
        ...


class Coordinator:
    """One job in one folder, started or resumed. Close it to release the folder."""

    def __init__(self, folder: str | Path, key: Ed25519PrivateKey, channel: Channel) -> None:
        self.folder, self._key, self._channel = Path(folder), key, channel
        private_folder(self.folder)
        self._lock = lock_folder(self.folder, "coordinator")
        for part in ("sent", "got"):
            private_folder(self.folder / part)
        self.log = logging.Logger("privot.coordinator", logging.INFO)
        handler = logging.FileHandler(private_file(self.folder / "coordinator.log"), encoding="utf-8")
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self.log.addHandler(handler)

    def close(self) -> None:
        """Close the log and unlock the folder."""
        for handler in list(self.log.handlers):
            self.log.removeHandler(handler)
            handler.close()
        os.close(self._lock)

    def run(self, job: FederatedJob) -> dict[str, Any]:
        """Run or resume `job`; returns the result as plain JSON types.

        It holds distances where both sides answered, and the name and reason of each party that is missing.
        """
        name = self._name(job)
        self.log.info("job %s: %s among %d parties", name[:8], job.protocol, len(job.members))
        missing: dict[str, str] = {}
        try:
            result = self._sketches(job, name, missing) if job.order is not None else self._pairs(job, name, missing)
        except PrivotError as error:
            self.log.error("job %s stopped: %s", name[:8], error)
            raise
        names = {m.signer: m.name for m in job.members}
        result = {
            "job": name,
            "protocol": job.protocol,
            "coordinator": public_name(self._key),
            "complete": not missing and all(value is not None for row in result["distances"] for value in row),
            "parties": [m.name for m in job.members],
            "missing": {names[party]: why for party, why in missing.items()},
            **result,
        }
        write_whole(self.folder / "result.json", json.dumps(result, indent=2, sort_keys=True).encode())
        self.log.info(
            "job %s: %s", name[:8], "complete" if result["complete"] else f"partial, without {len(missing)} parties"
        )
        return result

    def _name(self, job: FederatedJob) -> str:
        """The name that the job got when it started; raises `UsageError` if the folder holds another job."""
        path = self.folder / "job.json"
        stated = json.loads(job.to_json())
        if not path.exists():
            write_whole(path, json.dumps({"name": os.urandom(16).hex(), "job": stated}).encode())
        try:
            kept = read_json(path, inside=self.folder)
            name, before = str(kept["name"]), kept["job"]
        except (KeyError, ValueError, TypeError):
            raise DataError(f"{path} is damaged: start in a new folder.") from None
        if before != stated:
            raise UsageError(f"{self.folder} holds another job: give the same job to resume it, or use a new folder.")
        return name

    def _sketches(self, job: FederatedJob, name: str, missing: dict[str, str]) -> dict[str, Any]:
        requests = {m.signer: Request("sketch", name, 0, m.signer, order=job.order) for m in job.members}
        answers = self._exchange(requests, job.wait, missing)
        private_folder(self.folder / "sketches")
        found: list[Sketch] = []
        left = [m for m in job.members if m.signer in answers]
        for member in left:
            content = answers[member.signer].sketch
            assert content is not None
            found.append(sketch_in(content, requests[member.signer]))
            write_whole(self.folder / "sketches" / f"{job.members.index(member)}.sketch", content)
        # nothing shows which party copied the other, and a copy must not stop the job of all
        copied = copies(found)
        missing |= {left[k].signer: COPIED for k in copied}
        left, found = [m for m in left if m.signer not in missing], [s for k, s in enumerate(found) if k not in copied]
        guarantees = {
            m.name: {
                "epsilon": s.guarantee.epsilon(),
                "delta": s.guarantee.at_delta,
                "adjacency": str(s.guarantee.adjacency),
                "unit": s.guarantee.to_dict()["unit"],
                "standing": str(s.guarantee.standing),
            }
            for m, s in zip(left, found, strict=True)
        }
        matrix = distance_matrix(found) if len(found) > 1 else None
        # without a release there is no standing
        standing = "proven" if guarantees else None
        return {"standing": standing, "guarantees": guarantees, **_spread_out(job, left, matrix)}

    def _pairs(self, job: FederatedJob, name: str, missing: dict[str, str]) -> dict[str, Any]:
        """All pairs in parallel: in every round each party gets one message with all its questions."""
        count = len(job.members)
        pairs: dict[tuple[int, int], Steps] = {}
        pending: dict[tuple[int, int], tuple[Question, Question]] = {}
        ends: dict[tuple[int, int], float] = {}
        for pair in itertools.combinations(range(count), 2):
            pairs[pair] = job.steps(pair)
            pending[pair] = next(pairs[pair])
        number = 0
        while pending:
            batches = {}
            for k, member in enumerate(job.members):
                batch = _batch([(pair, pending[pair][pair.index(k)]) for pair in pending if k in pair])
                if batch[0] and member.signer not in missing:
                    batches[member.signer] = batch
            requests = {
                party: Request(job.protocol, name, number, party, questions=questions, labels=job.labels)
                for party, (questions, _) in batches.items()
            }
            answers = self._exchange(requests, job.wait, missing)
            nxt = {}
            for pair in pending:
                sides = [job.members[k].signer for k in pair]
                if not all(side in answers for side in sides):
                    continue
                one, two = (answers[side].interpolants[batches[side][1][pair]] for side in sides)
                try:
                    nxt[pair] = pairs[pair].send((one, two))
                except StopIteration as end:
                    ends[pair] = end.value[-1]
                except Exception as error:  # one pair that cannot be compared must not stop the job
                    self.log.warning(
                        "%s…, %s… cannot be compared: %s", sides[0][:8], sides[1][:8], type(error).__name__
                    )
            pending, number = nxt, number + 1
        table: list[list[float | None]] = [[0.0 if i == j else None for j in range(count)] for i in range(count)]
        for (i, j), value in ends.items():
            table[i][j] = table[j][i] = value
        return {"standing": "unproven", "privacy": NO_PRIVACY, "rounds": number, "distances": table}

    def _exchange(self, requests: Mapping[str, Request], wait: float, missing: dict[str, str]) -> dict[str, Answer]:
        """Answers by party, from disk or received now; parties without one go to `missing`, with the reason."""
        answers: dict[str, Answer] = {}
        sent: dict[str, bytes] = {}
        back: dict[str, Path] = {}
        for party, request in requests.items():
            sent[party], back[party] = self._written(request)
            if back[party].exists():
                answers[party] = checked(
                    read_bytes(back[party], most=MAX_BYTES, inside=self.folder), request, sent[party]
                )
        rest = {party: data for party, data in sent.items() if party not in answers}
        why = dict.fromkeys(rest, LATE)
        if rest:
            for party, data in self._channel.exchange(rest, wait):
                if party not in rest or party in answers:
                    continue
                if isinstance(data, str):
                    why[party] = data
                    continue
                try:
                    answer = checked(data, requests[party], rest[party])
                except PrivotError as error:
                    why[party] = f"sent an invalid answer: {error}"
                    continue
                except Exception as error:  # one party's invalid answer must not stop the job
                    why[party] = f"sent an invalid answer ({type(error).__name__})"
                    continue
                if answer.refusal is not None:
                    why[party] = f"refused: {answer.refusal}"
                    continue
                write_whole(back[party], data)
                answers[party] = answer
                if len(answers) == len(requests):
                    break
        for party in rest:
            if party not in answers:
                missing[party] = why[party]
                self.log.warning("%s… %s", party[:16], why[party])
        return answers

    def _written(self, request: Request) -> tuple[bytes, Path]:
        """The bytes to send, written to disk, and the path of the answer to them.

        The same request is always the same bytes. Another request in the same round (after a restart more parties may
        have answered) gets its own number, because a party accepts each number once.
        """
        for number in range(request.number, MAX_NUMBERS, MAX_ROUNDS):
            mark = f"{number}-{request.party[:32]}"
            out, data = self.folder / "sent" / mark, replace(request, number=number).sealed(self._key)
            if not out.exists():
                write_whole(out, data)
            if read_bytes(out, most=MAX_BYTES, inside=self.folder) == data:
                return data, self.folder / "got" / mark
        raise UsageError("This job was restarted too often: start in a new folder.")


def _batch(
    pending: list[tuple[tuple[int, int], Question]],
) -> tuple[tuple[Question, ...], dict[tuple[int, int], int]]:
    """Distinct questions to one party, and the question of each pair."""
    questions: list[Question] = []
    seen: dict[bytes, int] = {}
    where = {}
    for pair, question in pending:
        data = question.to_bytes()
        if data not in seen:
            seen[data] = len(questions)
            questions.append(question)
        where[pair] = seen[data]
    if len(questions) > MAX_QUESTIONS:
        raise UsageError(f"FedWad among more than {MAX_QUESTIONS + 1} parties needs several jobs.")
    return tuple(questions), where


def _spread_out(job: FederatedJob, left: list[Any], matrix: Matrix | None) -> dict[str, Any]:
    """The matrices over all parties, with None where a party is missing."""
    count = len(job.members)
    at = {member.signer: k for k, member in enumerate(left)}
    out: dict[str, Any] = {}
    for name in ("w2", "sliced"):
        table: list[list[float | None]] = [[0.0 if i == j else None for j in range(count)] for i in range(count)]
        for i, one in enumerate(job.members):
            for j, two in enumerate(job.members):
                if matrix is not None and i != j and one.signer in at and two.signer in at:
                    table[i][j] = float(getattr(matrix, name)[at[one.signer], at[two.signer]])
        out[name] = table
    out["distances"] = out["w2"]
    return out
