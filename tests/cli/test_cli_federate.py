"""`privot federate`: it creates folders with keys, and refuses wrong jobs before anything is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from privot.cli import run
from privot.errors import DataError, NoAnswerError
from privot.federation.coordination.coordinator import ABSENT
from privot.federation.coordination.federated_job import FederatedJob
from privot.federation.wire.signing import read_public


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_enrol_and_setup_create_keys_that_only_their_owner_can_read(folder: Path, capsys) -> None:
    assert run(["federate", "enrol", "north", "--name", "north clinic", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["signer"] == read_public(folder / "north" / "signing.key.pub")
    assert 'name = "north clinic"' in (folder / "north" / "policy.toml").read_text()
    assert run(["federate", "setup", "hub", "--host", "127.0.0.1", "--host", "hub.example.org", "--json"]) == 0
    keys = ("north/signing.key", "north/node.key", "hub/signing.key", "hub/server.pem.key", "hub/superexec.secret")
    for private in keys:
        assert (folder / private).stat().st_mode & 0o077 == 0
    leaf = x509.load_pem_x509_certificate((folder / "hub" / "server.pem").read_bytes())
    root = x509.load_pem_x509_certificate((folder / "hub" / "ca.pem").read_bytes())
    leaf.verify_directly_issued_by(root)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hub.example.org"]
    assert isinstance(leaf.public_key(), ec.EllipticCurvePublicKey)
    # never overwritten
    assert run(["federate", "enrol", "north"]) == 2
    assert run(["federate", "setup", "hub", "--host", "127.0.0.1"]) == 2


def test_any_valid_party_name_gives_a_readable_policy(folder: Path, capsys) -> None:
    from privot.federation.parties.policy import Policy

    name = 'north "N" \\ {south}'
    assert run(["federate", "enrol", "north", "--name", name]) == 0
    assert Policy.read(folder / "north" / "policy.toml").name == name
    for bad in ("a\nb", "a\tb", "\x7f", "", " "):
        capsys.readouterr()
        assert run(["federate", "enrol", "south", "--name", bad]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert not (folder / "south").exists()


def test_a_job_without_any_distance_ends_with_an_error() -> None:
    from privot.cli.commands.groups.federate_commands import _check_obtained, _tell

    nothing = [[0.0, None], [None, 0.0]]
    some = [[0.0, 1.0, None], [1.0, 0.0, None], [None, None, 0.0]]
    _check_obtained({"job.toml": {"distances": some}})
    refused = {"distances": nothing, "missing": {"north": "refused: The policy allows no sketch."}}
    with pytest.raises(DataError, match=r"job\.toml.*north refused"):
        _check_obtained({"other.toml": {"distances": some}, "job.toml": refused})
    absent = {"distances": nothing, "missing": {"north": ABSENT, "south": "refused: The policy allows no sketch."}}
    with pytest.raises(NoAnswerError, match="north never connected") as found:
        _check_obtained({"job.toml": absent})
    assert found.value.exit_code == 6
    _tell(
        {
            "protocol": "sketch",
            "standing": None,
            "parties": ["a", "b"],
            "complete": False,
            "missing": {},
            "distances": nothing,
        }
    )


def test_a_policy_from_the_template_allows_nothing(folder: Path) -> None:
    from privot.federation.parties.policy import Policy

    run(["federate", "enrol", "north"])
    assert Policy.read(folder / "north" / "policy.toml").rules == ()


JOB = """version = 1
protocol = "{protocol}"
wait = 30
{body}
[[party]]
name = "a"
signer = "{one}"
[[party]]
name = "b"
signer = "{two}"
"""
SKETCH = '[sketch]\nepsilon = 1.0\ndelta = 1e-5\nadjacency = "replace-one"\ndim = 4\nrange = [0, 1]\n'


def written(folder: Path, body: str = SKETCH, protocol: str = "sketch", two: str = "22" * 32) -> Path:
    path = folder / "job.toml"
    path.write_text(JOB.format(protocol=protocol, body=body, one="11" * 32, two=two))
    return path


def test_job_files_of_all_protocols_are_read(folder: Path) -> None:
    work = FederatedJob.read(written(folder))
    assert work.order is not None
    assert work.order.design.dim == 4
    assert [m.name for m in work.members] == ["a", "b"]
    work = FederatedJob.read(
        written(folder, '[interpolants]\ndim = 3\nt = "random"\nrounds = 4\npoints = 9\n', "fedwad")
    )
    assert (work.t, work.rounds, work.space) == ("random", 4, 3)
    assert FederatedJob.read(written(folder, "[interpolants]\ndim = 3\nlabels = true\n", "triangle")).space == 15


@pytest.mark.parametrize(
    ("body", "protocol", "two"),
    [
        ("", "sketch", "22" * 32),
        (SKETCH.replace("range = [0, 1]", "range = [0]"), "sketch", "22" * 32),
        (SKETCH.replace("range = [0, 1]\n", ""), "sketch", "22" * 32),
        (SKETCH.replace("epsilon = 1.0", "epsilon = -1.0"), "sketch", "22" * 32),
        (SKETCH + "surprise = 1\n", "sketch", "22" * 32),
        (SKETCH, "sketch", "11" * 32),
        (SKETCH, "telepathy", "22" * 32),
        ("[interpolants]\ndim = 3\nrounds = 0\n", "fedwad", "22" * 32),
    ],
)
def test_wrong_job_files_are_refused(folder: Path, body: str, protocol: str, two: str) -> None:
    run(["federate", "setup", "hub", "--host", "127.0.0.1"])
    assert run(["federate", "coordinate", "hub", str(written(folder, body, protocol, two))]) in (2, 3)


def test_joining_without_a_policy_or_with_a_wrong_one_is_refused(folder: Path) -> None:
    run(["federate", "enrol", "north"])
    run(["federate", "setup", "hub", "--host", "127.0.0.1"])
    common = ["--link", "127.0.0.1:1", "--authority", "hub/ca.pem"]
    assert run(["federate", "join", "nowhere", *common]) in (2, 3)
    # the template's data file is not there
    assert run(["federate", "join", "north", *common]) == 3
    (folder / "north" / "policy.toml").write_text("version = 2\n")
    assert run(["federate", "join", "north", *common]) == 3
