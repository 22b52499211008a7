"""Where the parts of an installation are, and the commands that its services run."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fedswe.deploy.flower.proxy import Proxy
from fedswe.errors import require


@dataclass(frozen=True)
class Places:
    """Where programs, configuration and state are, and the commands that use them."""

    server: str  # the name that clients connect to
    port: int = 8443
    programs: str = "/opt/fedswe/bin"
    config: str = "/etc/fedswe"
    state: str = "/var/lib/fedswe"
    user: str = "fedswe"
    superlink_socket: str = ""  # where nginx reaches the SuperLink; empty: on loopback

    connection = "fedswe"  # name of the SuperLink in Flower's configuration
    superlink_port = 8000

    def __post_init__(self) -> None:
        for name in ("programs", "config", "state"):
            value = getattr(self, name)
            require(
                re.fullmatch(r"/[A-Za-z0-9._/+-]+", value),
                f"--{name} must be an absolute path of letters, digits and ._/+-, not {value!r}",
            )
        require(re.fullmatch(r"[a-z_][a-z0-9_-]*", self.user), f"--user must be a user name, not {self.user!r}")
        require(1 <= self.port <= 65535, f"--port must be from 1 to 65535, not {self.port}")

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.programs}:/usr/local/bin:/usr/bin:/bin",  # Flower starts its own programs by name
            "HOME": self.state,
            "FLWR_HOME": f"{self.state}/flower",
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }

    @property
    def _loopback(self) -> str:
        return f"127.0.0.1:{self.superlink_port}"

    def proxy(self) -> Proxy:
        return Proxy(str(self.port), f"unix:{self.superlink_socket}" if self.superlink_socket else self._loopback)

    def control(self) -> dict[str, str]:
        """The section of the SuperLink in Flower's config.toml."""
        return {"address": self._loopback, "root-certificates": f"{self.config}/ca.crt"}

    # commands of the server ----------------------------------------------------------------------------
    def superlink_command(self) -> list[str]:
        return [
            f"{self.programs}/flower-superlink", "--host", "127.0.0.1", "--port", str(self.superlink_port),
            "--database", f"{self.state}/superlink.db", "--isolation", "process",
            "--disable-runtime-dependency-installation", "--enable-supernode-auth",
            "--ssl-ca-certfile", f"{self.config}/ca.crt", "--ssl-certfile", f"{self.config}/server.crt",
            "--ssl-keyfile", f"{self.config}/server.key",
            "--superexec-auth-secret-file", f"{self.config}/superexec.secret",
        ]  # fmt: skip

    def superexec_command(self) -> list[str]:
        return [
            f"{self.programs}/flower-superexec", "--runtime-api-address", self._loopback,
            "--root-certificates", f"{self.config}/ca.crt",
            "--superexec-auth-secret-file", f"{self.config}/superexec.secret",
        ]  # fmt: skip

    def proxy_command(self) -> list[str]:
        return [
            "/usr/sbin/nginx", "-e", "stderr", "-p", f"{self.state}/nginx", "-c", f"{self.config}/nginx.conf",
            "-g", "daemon off;",
        ]  # fmt: skip

    def connect_command(self) -> list[str]:
        """Flower reads its configuration in FLWR_HOME, where it also writes."""
        return ["/usr/bin/install", "-D", "-m", "600", f"{self.config}/config.toml", f"{self.state}/flower/config.toml"]

    def keys_command(self) -> list[str]:
        app = f"{self.config}/app"
        return [f"{self.programs}/fedswe", "deploy", "keys", "sync", app, "--superlink", self.connection]

    def submit_command(self) -> list[str]:
        run = f'run-dir="{self.state}/run"'
        return [f"{self.programs}/flwr", "run", f"{self.config}/app", self.connection, "--run-config", run]

    # the command of a client ---------------------------------------------------------------------------
    def node_command(self, client: str) -> list[str]:
        return [
            f"{self.programs}/fedswe", "deploy", "node", "--",
            "--superlink", f"{bracketed(self.server)}:{self.port}", "--root-certificates", f"{self.config}/ca.crt",
            "--auth-supernode-private-key", f"{self.config}/client-{client}.key",
            "--node-config", f'partition-id={client} state-dir="{self.state}/client-{client}"',
        ]  # fmt: skip


def bracketed(server: str) -> str:
    """A server as it is written in front of a port: IPv6 addresses in brackets."""
    return f"[{server}]" if ":" in server else server
