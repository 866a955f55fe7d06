"""A party's desk: reads signed requests, checks them against the policy, and sends signed answers. It trusts no peer.

The channel (a function call, Flower) is not trusted either: requests and answers are signed. The order of checks is
fixed: signature, form, addressee, policy, earlier requests, and only then vault and ledger. A sketch is paid for once:
the same order gets the same stored file, and after a crash between charge and file the sketch is made again from a
secret that lies beside it (`Vault.release_once`).
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np

from privot.common.extras import needing
from privot.common.files import PART, lock_folder, private_file, private_folder, sync, write_whole
from privot.data.loading import load
from privot.data.record_digest import row_digests
from privot.errors import BudgetError, DataError, PolicyError, PrivotError, UsageError
from privot.federation.coordination.answers import Answer, digest
from privot.federation.coordination.requests import Request
from privot.federation.parties.policy import Policy, VaultTerms
from privot.federation.parties.request_memory import Memory
from privot.federation.protocols.answering import local_party
from privot.federation.sketches.delivering import ordered, released
from privot.federation.sketches.signed_sketch import Sketch, sketch_of
from privot.federation.sketches.sketch_order import Order
from privot.federation.wire.messages import MAX_BYTES
from privot.federation.wire.signing import open_sealed, public_name, read_key, seal
from privot.jobs.paid_question import PAID, SECRET
from privot.ledger import Ledger
from privot.opening import read_bytes
from privot.vault import Vault

POLICY, KEY = "policy.toml", "signing.key"


class Desk:
    """Answers requests for a party's records; its folder holds policy, keys, sketches and log.

    Parameters
    ----------
    folder
        The party's folder, with `policy.toml` and `signing.key`. One desk at a time opens it.
    new_records
        Whether the file of `[data]` is a new data set with its own budget. The ledger guards one data set, so a desk
        refuses changed records unless this is set. It is no entry of the policy, because it would then allow every
        later change too.

    Formal guarantees
    -----------------
      * the ledger is charged before the vault's records are read, and no request outside the policy reaches the vault;
      * one order is paid for once: repeated orders get the stored sketch;
      * interpolants are made from the `[open]` points only, never from the vault's records;
      * no answer, refusal or log line quotes a record, and a refusal does not tell how much budget is left.
    """

    def __init__(self, folder: str | Path, *, new_records: bool = False) -> None:
        self.folder = Path(folder)
        self.policy = Policy.read(self.folder / POLICY)
        self._key = read_key(self.folder / KEY)
        self.name = public_name(self._key)
        self._lock = lock_folder(self.folder, "party")
        try:
            self._open_up(new_records)
        except BaseException:
            os.close(self._lock)
            raise

    def _open_up(self, new_records: bool) -> None:
        self.log = _log_to(self.folder / "party.log", self.name)
        private_folder(self.folder)
        private_file(self.folder / POLICY)
        self._memory = Memory(private_file(self.folder / "asked.jsonl"))
        self._sketches = private_folder(self.folder / "sketches")
        self._tidy()
        self._open: dict[bool, Any] = {}
        self._vault: Vault | None = None
        if self.policy.vault is not None:
            self._open_vault(self.policy.vault, new_records)
        self.log.info("ready: %s, %s", self.policy.name, self.name)

    def _open_vault(self, terms: VaultTerms, new_records: bool) -> None:
        """Open the records of `[data]` and their ledger; a party with open points only has neither."""
        self._ledger = Ledger.open(terms.ledger) if terms.ledger.exists() else self._new_ledger(terms.ledger)
        stated = terms.stated
        if str(terms.data) != "digits" and terms.data.is_dir() and stated.shape is None:
            raise DataError("[data] is a folder of images: state their public shape there, as [height, width].")
        records = load(terms.data, classes=stated.classes, shape=stated.shape)
        labels = records.y
        self._rows = self._ledger.fingerprint({"x": row_digests(records.x)})
        # no clipping: the design bounds every coordinate of a sketch
        self._vault = Vault(
            records.x,
            labels,
            clip=1.0,
            adjacency=terms.adjacency,
            classes=terms.classes,
            ledger=self._ledger,
            budget=terms.budget,
            label=self.policy.name,
            new_records=new_records,
        )
        self._data = self._ledger.fingerprint({"x": row_digests(records.x, labels)})

    def close(self) -> None:
        """Close the ledger and the log, and unlock the folder."""
        if self._vault is not None:
            self._ledger.close()
        for handler in list(self.log.handlers):
            self.log.removeHandler(handler)
            handler.close()
        os.close(self._lock)

    def handle(self, data: bytes) -> bytes:
        """The signed answer to a request's bytes; a refusal states its reason without any fact about records."""
        who, what = "an unknown sender", "a message"
        try:
            request, asker = Request.opened(data, self.policy.askers)
            who, what = f"{asker[:16]}…", f"{request.protocol}, job {request.job[:8]}, number {request.number}"
            answer = self._answer(request, asker, data)
            self.log.info("answered %s: %s", who, what)
            return answer.sealed(self._key)
        except BudgetError as error:
            # the remaining budget is not disclosed
            self.log.warning("refused %s: %s: %s", who, what, error)
            reason = "The party's budget does not cover this."
        except PrivotError as error:
            self.log.warning("refused %s: %s: %s", who, what, error)
            reason = " ".join(str(error).split())
        except Exception as error:
            # the error's text could quote a record
            self.log.error("failed for %s: %s: %s", who, what, type(error).__name__)
            reason = "The party failed to answer."
        return Answer(digest(data), refusal=reason).sealed(self._key)

    def _answer(self, request: Request, asker: str, data: bytes) -> Answer:
        if request.party != self.name:
            raise PolicyError("The request is addressed to another party.")
        mark = digest(data)
        new = self._memory.is_new(request, asker, mark)
        days = self.policy.rule_days(request.protocol, asker)
        self.policy.check(request, asker, self._memory.earlier(request.protocol, asker, days) if new else 0)
        if new:
            self._memory.accept(request, asker, mark)
        if request.order is not None:
            return Answer(mark, sketch=self._sketch(request.order, asker))
        party = self._open_party(request.labels)
        return Answer(mark, interpolants=tuple(party(question) for question in request.questions))

    def _sketch(self, order: Order, asker: str) -> bytes:
        """The signed file of the ordered sketch, made and paid for unless it is stored already."""
        vault = self._vault
        assert vault is not None
        name = f"{order.digest()[:32]}-{self._data[:16]}"
        path = self._sketches / f"{name}.sketch"
        question, run = ordered(order, vault, self._sketches, self._data, f"sketch {name[:16]} for {asker[:16]}")
        if path.exists():
            content = read_bytes(path, most=MAX_BYTES, inside=self._sketches)
            sealed = open_sealed(content, "The stored sketch")
            if sealed.signer != self.name:
                raise DataError("A stored sketch is not signed by this party: restore it from a backup.")
            Sketch.from_bytes(sealed.payload)
            question.remove()
            self.log.info("sketch %s is stored: sent again, not charged again", name[:8])
            return content
        release = released(order, question, run)
        self.log.info("sketch %s paid: %s", name[:8], release.guarantee.stated())
        content = seal(sketch_of(release).to_bytes(), self._key)
        write_whole(path, content)
        question.remove()
        return content

    def _open_party(self, labels: bool) -> Any:
        """A party with the open points, which anybody may see; it never holds the vault's records."""
        if labels not in self._open:
            assert self.policy.open is not None
            try:
                stated = self.policy.open_stated
                classes = stated.classes if labels else 0
                found = load(self.policy.open, classes=classes, shape=stated.shape)
            except (DataError, UsageError) as error:
                # the path of the file is not disclosed
                self.log.error("the open data cannot be read: %s", error)
                raise PolicyError("The open data cannot be read.") from None
            if self._vault is not None and self._ledger.fingerprint({"x": row_digests(found.x)}) == self._rows:
                raise PolicyError("The open data are the vault's records, which are never shown.")
            points = np.asarray(found.x, dtype=np.float64)
            if labels:
                if found.y is None:
                    raise PolicyError("The open data has no labels.")
                with needing("Labelled points need", "torch"):
                    from privot.transport._otdd import augmented

                size = 8 * len(points) * (2 * points.shape[1] + points.shape[1] ** 2)
                if size > MAX_BYTES:
                    raise PolicyError(
                        f"With labels the open data make an answer of {size} bytes, and at most {MAX_BYTES} are sent."
                    )
                points = np.asarray(augmented(points, found.y))
            self._open[labels] = local_party(points)
        return self._open[labels]

    def _tidy(self) -> None:
        """Remove what a kill left: partial files, and what makes a sketch again that is on disk."""
        for partial in self._sketches.glob(f"*{PART}"):
            partial.unlink()
        for suffix in (SECRET, PAID):
            for kept in self._sketches.glob(f"*{suffix}"):
                if kept.with_suffix(".sketch").exists():
                    kept.unlink()
        sync(self._sketches)

    def _new_ledger(self, path: Path) -> Ledger:
        if any(self._sketches.iterdir()):
            raise DataError(
                f"There is no ledger {path.name}, but sketches were paid for: restore the ledger from a backup."
            )
        self.log.info("no ledger at %s yet: made one", path.name)
        return Ledger.create(path)


def _log_to(path: Path, name: str) -> logging.Logger:
    log = logging.Logger(f"privot.party.{name[:8]}", logging.INFO)
    handler = logging.FileHandler(private_file(path), encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    return log
