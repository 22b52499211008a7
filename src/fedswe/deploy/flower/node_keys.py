"""clients.toml: the public key of each client. A node is the client whose key it has."""

from __future__ import annotations

import base64
import hashlib
import tomllib
from collections.abc import Sequence
from pathlib import Path

import tomli_w
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
    load_ssh_public_key,
)

from fedswe.errors import FedsweError, require
from fedswe.results.files import write_whole

FILE = "clients.toml"
_HEAD = '# The public keys of clients 0, 1, 2, ...; "" for a client whose key was revoked.\n'


def read_keys(folder: Path) -> list[bytes | None]:
    """The keys of the clients in their order, in the form in which Flower stores them; None: the client has none."""
    path = folder / FILE
    keys = [canonical_key(line) if line else None for line in read_lines(folder)]
    given = [key for key in keys if key is not None]
    require(len(set(given)) == len(given), f"{path} has the same key twice: give every client its own")
    return keys


def read_lines(folder: Path) -> list[str]:
    """The lines of clients.toml, one per client."""
    path = folder / FILE
    require(path.is_file(), f"{path} is missing: `fedswe deploy init --tls` writes an app with keys")
    try:
        lines = tomllib.loads(path.read_text())["keys"]
    except OSError as error:
        raise FedsweError(f"cannot read {path}: {error.strerror}: check its permissions") from None
    except (ValueError, KeyError) as error:
        raise FedsweError(f"{path} must be TOML with a list called keys ({error})") from None
    require(
        isinstance(lines, list) and all(isinstance(line, str) for line in lines),
        f"{path}: keys must be a list of public keys",
    )
    return [str(line) for line in lines]


def write_lines(folder: Path, lines: Sequence[str]) -> None:
    write_whole(folder / FILE, _HEAD + tomli_w.dumps({"keys": list(lines)}))


def canonical_key(line: str) -> bytes:
    """A public key, given as in an OpenSSH .pub file, in the form in which Flower stores it."""
    try:
        key = load_ssh_public_key(line.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FedsweError(f"clients.toml: {line[:40]!r}... is not an OpenSSH public key ({error})") from None
    require(
        isinstance(key, ec.EllipticCurvePublicKey),
        f"clients.toml: {line[:40]!r}... is not an ECDSA key, which Flower needs: ssh-keygen -t ecdsa -b 384",
    )
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def fingerprint(key: bytes) -> str:
    """The fingerprint that `ssh-keygen -l` shows for a key in Flower's form."""
    try:
        line = load_pem_public_key(key).public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    except (ValueError, UnsupportedAlgorithm):
        return "unreadable"  # a node without authentication may say anything
    digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
