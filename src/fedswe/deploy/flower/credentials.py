"""Certificates and node keys: an authority of the federation, the server's certificate, a key pair per client."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
from collections.abc import Sequence
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
    load_pem_private_key,
    load_ssh_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedswe.errors import FedsweError, require
from fedswe.results.files import write_whole

LOOPBACK = ("127.0.0.1", "localhost")  # names that every server certificate has: the SuperLink listens on loopback
_AUTHORITY_VALID = timedelta(days=3650)
_SERVER_VALID = timedelta(days=365)
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def write_credentials(folder: Path, clients: int, names: Sequence[str] = ()) -> list[str]:
    """Write a certificate authority, a server certificate and a key pair per client.

    folder/ca.crt, ca.key                certificate authority, trusted by SuperNodes, nginx and `flwr`
    folder/server.crt, server.key        certificate for loopback and for `names`
    folder/client-I.key, client-I.pub    key pair of client I

    Returns the public keys in the order of the clients.
    """
    for name in names:
        _general_name(name)  # a wrong name must not leave half of the files
    folder.mkdir(mode=0o700)
    key = _private_key()
    authority = _certificate("fedswe federation", key, None, key, ())
    write_whole(folder / "ca.crt", authority.public_bytes(Encoding.PEM))
    write_private(folder / "ca.key", _pem(key, PrivateFormat.PKCS8))
    write_server_certificate(folder, names)
    return [write_key_pair(folder, client) for client in range(clients)]


def write_server_certificate(folder: Path, names: Sequence[str]) -> None:
    """Write a new server certificate, signed by the authority in `folder`."""
    authority, authority_key = _read_certificate(folder / "ca.crt"), _authority_key(folder / "ca.key")
    key = _private_key()
    names = list(dict.fromkeys([*names, *LOOPBACK]))
    server = _certificate(names[0], key, authority, authority_key, names)
    write_private(folder / "server.key", _pem(key, PrivateFormat.PKCS8))
    write_whole(folder / "server.crt", server.public_bytes(Encoding.PEM))


def write_key_pair(folder: Path, client: int) -> str:
    """Write a new key pair of a client; returns the public key as a line."""
    key = _private_key()
    line = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    write_private(folder / f"client-{client}.key", _pem(key, PrivateFormat.OpenSSH))
    write_whole(folder / f"client-{client}.pub", line + "\n")
    return line


def write_secret(path: Path) -> None:
    """Write a random secret, which a SuperExec shows to its SuperLink or SuperNode."""
    write_private(path, secrets.token_hex(32).encode())


def write_private(path: Path, content: bytes) -> None:
    """Replace a file by one that only its owner can read."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def certificate_names(path: Path) -> list[str]:
    """The DNS names and addresses that a certificate is valid for."""
    try:
        found = _read_certificate(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in found if isinstance(name, x509.DNSName | x509.IPAddress)]


def days_left(path: Path) -> int:
    """Days until a certificate ends; negative if it has ended."""
    return (_read_certificate(path).not_valid_after_utc - datetime.now(UTC)).days


def public_key_of(path: Path) -> bytes | None:
    """The public key of a private key file, in the form in which Flower stores it; None if it cannot be read."""
    try:
        key = load_ssh_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _private_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP384R1())  # the curve that Flower's documentation uses


def _pem(key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> bytes:
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise FedsweError(f"{path} is not a certificate ({error}): `fedswe deploy init --tls` writes one") from None


def _authority_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise FedsweError(f"{path} is not the private key of the authority ({error}): restore it") from None
    require(isinstance(key, ec.EllipticCurvePrivateKey), f"{path} is not the key that `fedswe deploy init` wrote")
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        labels = name.split(".")
        require(
            len(name) <= 253 and all(map(_LABEL.fullmatch, labels)),
            f"--server must be a DNS name or an IP address without a port, not {name[:60]!r}",
        )
        return x509.DNSName(name)


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    names: Sequence[str],
) -> x509.Certificate:
    """A certificate for `names`, signed by `issuer`; without one, a self-signed certificate of an authority."""
    now, subject = datetime.now(UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
    authority = issuer is None
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clocks may differ
        .not_valid_after(now + (_AUTHORITY_VALID if authority else _SERVER_VALID))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(_usage(authority), critical=True)  # Python 3.13 refuses an authority without it
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if not authority:
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority, key_cert_sign=authority, crl_sign=authority,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
