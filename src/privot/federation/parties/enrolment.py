"""Makes keys and certificates of a party and of a coordinator; only their owner can read the private ones.

A party signs its messages with Ed25519, and its node authenticates to the coordinator's SuperLink with a P-384 key. A
coordinator signs with Ed25519 too, and its SuperLink has a TLS certificate from its own authority. No record and no
ledger is touched.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from privot.common.files import private_folder, write_key, write_whole
from privot.errors import UsageError, brief
from privot.federation.wire.signing import make_key, public_name

SIGNING, NODE, AUTHORITY, CERTIFICATE, SECRET = "signing.key", "node.key", "ca.pem", "server.pem", "superexec.secret"
DAYS = 365
MAX_HOST = 253
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")

TEMPLATE = """\
version = 1
name = "{name}"

[data]                          # the vault; no record of it is ever sent
file = "records.npz"
ledger = "records.ledger"
adjacency = "replace-one"
epsilon = 1.0                   # the whole budget, set once
delta = 1e-5

# Nothing is allowed unless it is named here. A coordinator's public key is in its signing.key.pub.
# [[allow]]
# protocol = "sketch"
# askers = ["…"]
# epsilon = 1.0
# delta = 1e-5
# requests = 10
# days = 30
"""


def make_party(folder: Path, name: str) -> str:
    """Make both keys of a party and a policy that allows nothing yet; returns the public signing key."""
    if not name.isprintable() or not name.strip():
        raise UsageError("The name of a party must be printable, on one line, and not empty.")
    _own(folder)
    signer = public_name(make_key(folder / SIGNING))
    key = ec.generate_private_key(ec.SECP384R1())
    write_key(folder / NODE, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    write_whole(folder / f"{NODE}.pub", public + b"\n", mode=0o644)
    policy = folder / "policy.toml"
    # a basic string of TOML: of what is printable only these two need escaping
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    if not policy.exists():
        write_whole(policy, TEMPLATE.format(name=quoted).encode())
    return signer


def make_coordinator(folder: Path, hosts: Sequence[str]) -> str:
    """Make a coordinator's keys and a certificate for `hosts` (names or addresses); returns its public signing key.

    The authority's private key is used once and deleted: no second certificate that parties trust can be made.
    """
    if not hosts:
        raise UsageError("A certificate needs at least one host name or address.")
    alternatives = [_alternative(host) for host in hosts]
    _own(folder)
    signer = public_name(make_key(folder / SIGNING))
    authority, key = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    issuer = _name("privot federation")
    root = (
        _builder(issuer, issuer, authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA256())
    )
    leaf = (
        _builder(_name(hosts[0]), issuer, key.public_key())
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, hashes.SHA256())
    )
    write_whole(folder / AUTHORITY, root.public_bytes(Encoding.PEM), mode=0o644)
    write_whole(folder / CERTIFICATE, leaf.public_bytes(Encoding.PEM), mode=0o644)
    write_key(folder / f"{CERTIFICATE}.key", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    write_key(folder / SECRET, os.urandom(32).hex().encode())
    return signer


def _own(folder: Path) -> None:
    """Make a folder that nobody else may enter; one that others use is not closed to them."""
    if folder.is_dir() and folder.stat().st_mode & 0o077 and any(folder.iterdir()):
        raise UsageError(
            f"{folder} holds files and is open to others: choose a new one for the keys, or close it first (chmod 700)."
        )
    private_folder(folder)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # clocks of two organisations may differ a little
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if len(host) > MAX_HOST or not all(_LABEL.fullmatch(part) for part in host.split(".")):
            raise UsageError(
                f"{brief(host)} is not a host name or address such as hub.example.org or 10.0.0.7."
            ) from None
        return x509.DNSName(host)
