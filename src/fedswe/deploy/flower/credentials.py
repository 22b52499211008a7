"""Certificates and node keys for a trial on one machine. A real installation uses its own certificates."""

from __future__ import annotations

import ipaddress
import os
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_public_key,
)
from cryptography.x509.oid import NameOID

from fedswe.errors import FedsweError
from fedswe.results.files import write_whole

_VALID = timedelta(days=365)


def write_credentials(folder: Path, clients: int) -> list[str]:
    """Write a certificate authority, a server certificate for loopback and a key pair per client.

    folder/ca.crt                        certificate authority, trusted by SuperNodes and `flwr`
    folder/server.crt, server.key        certificate of the SuperLink
    folder/superexec.secret              shared secret of SuperLink and SuperExec
    folder/client-I.key, client-I.pub    key pair of client I

    Returns the public keys in the order of the clients.
    """
    folder.mkdir(mode=0o700)
    authority_key, server_key = _private_key(), _private_key()
    authority = _certificate("fedswe trial authority", authority_key, None, authority_key)
    server = _certificate("localhost", server_key, authority, authority_key)
    write_whole(folder / "ca.crt", authority.public_bytes(Encoding.PEM))
    write_whole(folder / "server.crt", server.public_bytes(Encoding.PEM))
    _write_private(folder / "server.key", _pem(server_key, PrivateFormat.PKCS8))
    _write_private(folder / "superexec.secret", secrets.token_hex(32).encode())
    public = []
    for i in range(clients):
        key = _private_key()
        _write_private(folder / f"client-{i}.key", _pem(key, PrivateFormat.OpenSSH))
        public.append(_public_line(key.public_key()))
        write_whole(folder / f"client-{i}.pub", public[-1] + "\n")
    return public


def canonical_key(line: str) -> bytes:
    """A public key, given as in an OpenSSH .pub file, in the form in which Flower stores it."""
    try:
        key = load_ssh_public_key(line.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FedsweError(f"clients.toml: {line[:40]}... is not an OpenSSH public key ({error})") from None
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _private_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())  # the curve that Flower's documentation uses


def _pem(key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> bytes:
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def _public_line(key: ec.EllipticCurvePublicKey) -> str:
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _write_private(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "wb") as file:
        file.write(content)


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    """A certificate signed by `issuer`; without one, a self-signed certificate of an authority."""
    now, subject = datetime.now(UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks may differ
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if issuer is not None:
        loopback: list[x509.GeneralName] = [
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.DNSName("localhost"),
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(loopback), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
