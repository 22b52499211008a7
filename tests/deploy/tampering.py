"""Ways to change a run directory: its files, its ledger, and its ledger with a chain that is valid again."""

import json

import safetensors.torch

from fedswe.deploy import ledger
from fedswe.deploy.ledger_key import LedgerKey
from fedswe.results.tensors import to_bytes

NO_KEY, OTHER_KEY = LedgerKey(b""), LedgerKey(b"another machine's key")


def tables(folder):
    return [json.loads(line) for line in (folder / ledger.FILE).read_text().splitlines()]


def rewrite(folder, change, key=None):
    """Change the lines of a ledger, and make chain and seals valid again, with this machine's key or another."""
    key = LedgerKey.find() if key is None else key
    changed = tables(folder)
    changed = change(changed) or changed
    previous, written = "", b""
    for table in changed:
        table = {name: value for name, value in table.items() if name != "seal"}
        body = json.dumps({**table, "previous": previous}).encode()
        seal = key.seal(body)
        text = body[:-1] + b', "seal": ' + json.dumps(seal).encode() + b"}" if seal else body
        previous, written = ledger.file_digest(text), written + text + b"\n"
    (folder / ledger.FILE).write_bytes(written)


def of_kind(kind, lines):
    return [line for line in lines if line["kind"] == kind]


def put_digest(folder, name):
    """Make the ledger name the file as it is now, with a valid chain."""
    known = ledger.file_digest((folder / f"{name}.safetensors").read_bytes())

    def change(lines):
        for line in of_kind("round", lines):
            if name in line["files"]:
                line["files"][name] = known

    rewrite(folder, change)


def calculated(path, f):
    """Apply a function to all numbers of a safetensors file."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8:end]).get("__metadata__")
    tensors = {name: f(value) for name, value in safetensors.torch.load(content).items()}
    path.write_bytes(to_bytes(tensors, metadata))


def flip(path, at=-1):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))


def swap(a, b):
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)
