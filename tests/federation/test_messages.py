"""Messages survive encoding and decoding, and nothing else is accepted."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

from privot import Vault
from privot.errors import BudgetError, DataError, UnprovenError
from privot.federation.protocols.answering import party_with_vault
from privot.federation.wire.messages import Interpolant, Question, decode, encode

POINTS = np.arange(6.0).reshape(3, 2)


def test_round_trips() -> None:
    question = Question(POINTS, 0.25, 1.5, 7)
    again = Question.from_bytes(question.to_bytes())
    np.testing.assert_array_equal(again.towards, POINTS)
    assert (again.t, again.p, again.number) == (0.25, 1.5, 7)
    answer = Interpolant.from_bytes(Interpolant(POINTS, 3.5, 0.25, 1.5, 7).to_bytes())
    assert answer.distance == 3.5
    answer.check_answers(question)
    assert question.to_bytes() == again.to_bytes()


@pytest.mark.parametrize(
    "answer",
    [
        Interpolant(POINTS, 1.0, 0.5, 2.0, 0),
        Interpolant(POINTS, 1.0, 0.25, 2.0, 1),
        Interpolant(np.ones((3, 5)), 1.0, 0.25, 2.0, 0),
    ],
)
def test_an_answer_to_another_question_is_refused(answer: Interpolant) -> None:
    with pytest.raises(DataError):
        answer.check_answers(Question(POINTS, 0.25))


@pytest.mark.parametrize(
    ("points", "facts"),
    [
        (POINTS, {"t": 0.0}),
        (POINTS, {"t": 1.0}),
        (POINTS, {"t": "0.5"}),
        (POINTS, {"p": 0.5}),
        (POINTS, {"number": -1}),
        (POINTS, {"number": True}),
        (POINTS, {"extra": 1}),
        (POINTS * np.nan, {}),
        (POINTS * 1e300, {}),
        (POINTS[0], {}),
        (POINTS[:0], {}),
    ],
)
def test_invalid_messages_are_refused(points, facts) -> None:
    data = encode("question", {"t": 0.5, "p": 2.0, "number": 0, **facts}, {"towards": points})
    with pytest.raises(DataError):
        Question.from_bytes(data)


def test_other_versions_kinds_names_and_garbage_are_refused() -> None:
    good = Question(POINTS, 0.5).to_bytes()
    with pytest.raises(DataError, match="kind"):
        Interpolant.from_bytes(good)
    with pytest.raises(DataError, match="damaged"):
        Question.from_bytes(good[:-40])
    with pytest.raises(DataError, match="damaged"):
        Question.from_bytes(b"")
    with pytest.raises(DataError, match="nothing else"):
        decode(encode("question", {}, {"towards": POINTS, "more": POINTS}), "question", {"towards": 2})

    def rebuilt(change, compression=zipfile.ZIP_STORED) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(out, "w", compression) as new:
            head = json.loads(old.read("message.json"))
            change(head)
            new.writestr("message.json", json.dumps(head))
            new.writestr("towards.npy", old.read("towards.npy"))
        return out.getvalue()

    assert Question.from_bytes(rebuilt(lambda h: None)).t == 0.5
    with pytest.raises(DataError, match="schema"):
        Question.from_bytes(rebuilt(lambda h: h.update(schema=2)))
    with pytest.raises(DataError, match="damaged"):
        Question.from_bytes(rebuilt(lambda h: None, zipfile.ZIP_DEFLATED))


def test_nothing_is_unpickled() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        head = {"schema": 1, "kind": "question", "facts": {"t": 0.5, "p": 2.0, "number": 0}}
        archive.writestr("message.json", json.dumps(head))
        body = io.BytesIO()
        np.save(body, np.array([[object()]]), allow_pickle=True)
        archive.writestr("towards.npy", body.getvalue())
    with pytest.raises(DataError):
        Question.from_bytes(out.getvalue())


def test_a_vault_answers_no_question_about_interpolants() -> None:
    vault = Vault(POINTS, clip=1.0, adjacency="replace-one", budget=(100.0, 1e-5))
    with pytest.raises(UnprovenError):
        party_with_vault(vault)(Question(POINTS, 0.5))
    with pytest.raises(BudgetError):
        party_with_vault(vault, allow_unproven=True)(Question(POINTS, 0.5))
