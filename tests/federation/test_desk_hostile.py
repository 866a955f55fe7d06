"""Unknown signers, hostile designs, lost ledgers and changed records: a desk reveals nothing and pays once."""

from __future__ import annotations

import io
import shutil
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from federation_folders import DESIGN, ORDER, D
from test_desks import JOB, Federation

from privot.errors import DataError, OtherRecordsError
from privot.federation.coordination.requests import Request
from privot.federation.parties.desk import Desk
from privot.federation.parties.policy import Policy
from privot.federation.wire.messages import Question, decode_any, encode
from privot.federation.wire.signing import make_key, open_sealed, seal


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    made = Federation(tmp_path, 1)
    yield made
    made.close()


def again(federation: Federation) -> None:
    """The party's process ends, and begins again."""
    federation.desks[0].close()
    federation.desks[0] = Desk(federation.folder / "0")


def test_a_design_made_to_overflow_is_refused_before_anything_is_paid(federation: Federation) -> None:
    payload = open_sealed(federation.request()).payload
    facts, arrays, _ = decode_any(payload, "request", {"centre": 1, "knots": 1})
    facts["order"]["radius"] = 1e-12
    arrays["centre"][0], arrays["knots"][-1] = 0.3 - np.finfo(float).max / 1e300, 1e12
    answer = federation.ask(seal(encode("request", facts, arrays), federation.key))
    assert "radius" in str(answer.refusal)
    assert federation.charges() == 0


def test_of_unknown_signers_only_the_signature_is_read(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    key = make_key(federation.folder / "stranger.key")
    data = Request("sketch", JOB, 0, federation.members[0].signer, order=ORDER).sealed(key)
    seen = []
    monkeypatch.setattr("privot.federation.coordination.requests.decode_any", lambda *a: seen.append(a))
    assert "does not allow any request from" in str(federation.ask(data).refusal)
    assert not seen


def overlapping(count: int, size: int) -> bytes:
    """A container in which `count` arrays share the bytes of one."""
    body = io.BytesIO()
    np.save(body, np.zeros((size, 1)))
    content, names = body.getvalue(), ["message.json", *(f"towards{k}.npy" for k in range(count))]
    out, entries = io.BytesIO(), []
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("message.json"), '{"schema": 1, "kind": "request", "facts": {}}')
        archive.writestr(zipfile.ZipInfo("towards0.npy"), content)
    data = out.getvalue()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = {i.filename: i for i in archive.infolist()}
        start = archive.start_dir
    for name in names:
        info = infos.get(name, infos["towards0.npy"])
        raw = name.encode()
        head = (20, 20, 0, 0, 0, 33, info.CRC, info.compress_size, info.file_size, len(raw), 0, 0, 0, 0, 0)
        entries.append(b"PK\x01\x02" + struct.pack("<4H2H3L5H2L", *head, info.header_offset) + raw)
    directory = b"".join(entries)
    end = b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, len(entries), len(entries), len(directory), start, 0)
    return data[:start] + directory + end


def test_parts_that_overlap_do_not_unfold(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    original = zipfile.ZipFile.read
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda self, *a: (read.append(a), original(self, *a))[1])
    with pytest.raises(DataError, match="damaged"):
        decode_any(overlapping(64, 1000), "request", {f"towards{k}": 2 for k in range(64)})
    assert not read


def test_a_lost_ledger_is_not_replaced_by_a_new_one(federation: Federation) -> None:
    assert federation.ask(federation.request()).sketch
    federation.desks[0].close()
    aside = federation.folder / "aside"
    aside.mkdir()
    for file in (federation.folder / "0").glob("records.ledger*"):
        shutil.move(file, aside)
    with pytest.raises(DataError, match="backup"):
        Desk(federation.folder / "0")
    for file in aside.iterdir():
        shutil.move(file, federation.folder / "0")
    federation.desks[0] = Desk(federation.folder / "0")


def test_changed_records_get_no_second_budget(federation: Federation) -> None:
    path = federation.folder / "0" / "records.npz"
    with np.load(path) as file:
        x, y = file["x"], file["y"]
    federation.desks[0].close()
    np.savez(path, x=x[1:], y=y[1:])
    # also before anything was spent: two budgets that are still whole could both be spent
    with pytest.raises(OtherRecordsError, match="guards other records"):
        Desk(federation.folder / "0")
    federation.desks[0] = Desk(federation.folder / "0", new_records=True)
    assert federation.ask(federation.request()).sketch
    federation.desks[0].close()
    np.savez(path, x=np.concatenate([x, x[:1]]), y=np.concatenate([y, y[:1]]))
    with pytest.raises(OtherRecordsError, match="guards other records"):
        Desk(federation.folder / "0")
    # labels are part of their records: the same budget, and no sketch of the others
    np.savez(path, x=x[1:], y=y[1:][::-1])
    federation.desks[0] = Desk(federation.folder / "0")
    assert "budget" in str(federation.ask(federation.request()).refusal)


def test_secrets_of_stored_sketches_and_partial_files_are_removed_at_the_start(federation: Federation) -> None:
    assert federation.ask(federation.request()).sketch
    folder = federation.folder / "0" / "sketches"
    kept = next(folder.glob("*.sketch")).with_suffix(".secret")
    kept.write_text("secret")
    (folder / ".x.secretabc.part").write_text("secret")
    unpaid = folder / "other.secret"
    unpaid.write_text("secret")
    again(federation)
    assert sorted(p.name for p in folder.iterdir()) == sorted([kept.with_suffix(".sketch").name, unpaid.name])


def test_the_vaults_records_are_never_the_open_ones(federation: Federation) -> None:
    folder = federation.folder / "0"
    ask = Request("triangle", JOB, 0, federation.members[0].signer, questions=(Question(np.ones((1, D)), 0.5),))
    path = folder / "policy.toml"
    text = path.read_text()
    path.write_text(text.replace('"open.npz"', '"../0/records.npz"'))
    with pytest.raises(DataError, match="never shown"):
        Policy.read(path)
    path.write_text(text)
    with np.load(folder / "records.npz") as file:
        np.savez(folder / "open.npz", x=file["x"][::-1])
    again(federation)
    assert "never shown" in str(federation.ask(ask.sealed(federation.key)).refusal)
    (folder / "open.npz").unlink()
    refusal = str(federation.ask(ask.sealed(federation.key)).refusal)
    assert "cannot be read" in refusal
    assert "open.npz" not in refusal


def test_an_order_is_the_same_on_a_machine_that_rounds_otherwise(federation: Federation) -> None:
    first = federation.ask(federation.request()).sketch
    data = federation.request(job="cd" * 16)
    original = np.linalg.qr

    def otherwise(*a, **k):  # type: ignore[no-untyped-def]
        q, r = original(*a, **k)
        return q * (1 + 1e-15), r

    assert DESIGN.matrix.shape[1] < D
    before, np.linalg.qr = np.linalg.qr, otherwise
    try:
        assert federation.ask(data).sketch == first
    finally:
        np.linalg.qr = before
    assert federation.charges() == 1


def test_records_that_are_a_link_to_themselves_are_bad_data(federation: Federation) -> None:
    federation.desks[0].close()
    records = federation.folder / "0" / "records.npz"
    aside = records.rename(federation.folder / "aside.npz")
    records.symlink_to(records)
    with pytest.raises((DataError, OSError)) as refused:
        Desk(federation.folder / "0")
    assert "records.npz" in str(refused.value)
    records.unlink()
    aside.rename(records)
    federation.desks[0] = Desk(federation.folder / "0")
