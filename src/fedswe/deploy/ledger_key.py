"""The secret key that seals the lines of ledgers. It is kept outside the run directories, in the user's data folder.

Whoever can change a run directory but not read this key cannot write lines that pass as the server's. Without the key,
for example on another machine, the seals are not checked.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from fedswe.errors import require, warn
from fedswe.results.files import sync_folder

VARIABLE = "FEDSWE_LEDGER_KEY"  # the path of the key file, instead of the user's data folder
_FORM = re.compile(rb"[0-9a-fA-F]{64}\s*")


@dataclass(frozen=True)
class LedgerKey:
    secret: bytes  # empty: there is none

    @staticmethod
    def path() -> Path:
        return Path(os.environ.get(VARIABLE) or platformdirs.user_data_path("fedswe") / "ledger.key")

    @classmethod
    def find(cls) -> LedgerKey:
        """The key of this machine, if there is one."""
        path = cls.path()
        try:
            content = path.read_bytes()
        except OSError:  # missing, or of another user
            return cls(b"")
        require(
            _FORM.fullmatch(content),
            f"{path} is damaged: a ledger key has 64 hexadecimal digits; restore it from a backup, or delete it to "
            "begin a new one, after which runs of the old key must be restored from backups",
        )
        return cls(bytes.fromhex(content.decode()))

    @classmethod
    def of_this_machine(cls) -> LedgerKey:
        """The key of this machine, which is generated if there is none."""
        path = cls.path()
        new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not path.exists():
                with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                    file.write(secrets.token_hex(32))
                    file.flush()
                    os.fsync(file.fileno())
                with suppress(FileExistsError):  # written by another process meanwhile
                    os.link(new, path)
                new.unlink()
                sync_folder(path.parent)
            path.open("rb").close()
        except OSError as error:
            warn(f"the ledger is not sealed: cannot use {path} ({error.strerror}); set {VARIABLE} to a private file")
        return cls.find()

    @property
    def name(self) -> str:
        return hashlib.sha256(b"name" + self.secret).hexdigest()[:8]

    def seal(self, text: bytes) -> str:
        """Empty without a key."""
        if not self.secret:
            return ""
        return f"{self.name}:{hmac.new(self.secret, text, hashlib.sha256).hexdigest()[:32]}"

    def checks(self, seal: str) -> bool:
        """Whether this key made, or should have made, that seal."""
        return bool(self.secret) and seal.startswith(f"{self.name}:")
