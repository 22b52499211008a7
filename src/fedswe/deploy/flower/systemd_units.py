"""systemd units of an installation.

SuperLink, SuperExec and ServerApp have a network namespace of their own, with nothing but a loopback interface: neither
other machines nor other users of this one reach them. nginx reaches the SuperLink through a socket in the file system,
which only its user can open.
"""

from __future__ import annotations

import shlex

from fedswe.deploy.flower import install_scripts
from fedswe.deploy.flower.places import Places

SOCKET = "/run/fedswe/superlink.sock"
_FORWARDER = "/usr/lib/systemd/systemd-socket-proxyd"

_SERVICE = """\
[Unit]
Description={description}
StartLimitIntervalSec=0
{unit}
[Service]
User={user}
WorkingDirectory={state}
Environment={environment}
{service}
UMask=0077
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths={state}
PrivateTmp=yes
ProtectHome=read-only
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictSUIDSGID=yes
LockPersonality=yes
"""
_INSTALL = "\n[Install]\nWantedBy=multi-user.target\n"
_JOIN = "JoinsNamespaceOf=fedswe-superlink.service\nAfter=fedswe-superlink.service\n"


def files(places: Places) -> dict[str, str]:
    """Paths below the folder of the installation, and their content."""
    return {
        "server/install.sh": install_scripts.systemd_server(places),
        "client/install.sh": install_scripts.systemd_client(places),
        **{f"server/systemd/{name}": text for name, text in _server(places).items()},
        **{f"client/systemd/{name}": text for name, text in _client(places).items()},
    }


def _server(places: Places) -> dict[str, str]:
    low_port = "AmbientCapabilities=CAP_NET_BIND_SERVICE\n" if places.port < 1024 else ""
    once = "\n".join(
        ["Type=oneshot", "TimeoutStartSec=300", "PrivateNetwork=yes"]
        + [f"ExecStartPre={_line(command)}" for command in (places.connect_command(), places.keys_command())]
        + [f"ExecStart={_line(places.submit_command())}"]
    )
    return {
        "fedswe-superlink.service": _service(
            places, "SuperLink, on a loopback interface of its own", "", _always(places.superlink_command(), 5, True)
        ) + _INSTALL,
        "fedswe-superexec.service": _service(
            places, "SuperExec, which runs the ServerApp", _JOIN, _always(places.superexec_command(), 5, True)
        ) + _INSTALL,
        "fedswe-forward.socket": (
            "[Unit]\nDescription=The SuperLink for nginx\n\n[Socket]\n"
            f"ListenStream={places.superlink_socket}\nSocketUser={places.user}\nSocketMode=0600\n\n[Install]\nWantedBy=sockets.target\n"
        ),
        "fedswe-forward.service": _service(
            places, "Forwards nginx to the SuperLink", "Requires=fedswe-forward.socket\n" + _JOIN,
            _always([_FORWARDER, f"127.0.0.1:{places.superlink_port}"], 1, True),
        ),
        "fedswe-proxy.service": _service(
            places, "nginx, the only program that is reached from outside",
            "Wants=fedswe-forward.socket network-online.target\nAfter=fedswe-forward.socket network-online.target\n",
            low_port + _always(places.proxy_command(), 5, False) + "\nExecReload=/bin/kill -HUP $MAINPID",
        ) + _INSTALL,
        "fedswe-submit.service": _service(places, "Registers the keys and submits the app", _JOIN, once),
        "fedswe-submit.timer": (
            "[Unit]\nDescription=Submits the app again, which continues the run after a crash\n\n"
            "[Timer]\nOnActiveSec=30s\nOnUnitInactiveSec=10min\n\n[Install]\nWantedBy=timers.target\n"
        ),
    }  # fmt: skip


def _client(places: Places) -> dict[str, str]:
    """A template: the instance is the number of the client. A SuperNode exits if its key is in use."""
    online = "Wants=network-online.target\nAfter=network-online.target\n"
    command = _always(places.node_command("%i"), 15, False)
    return {"fedswe-node@.service": _service(places, "Node of client %i", online, command) + _INSTALL}


def _service(places: Places, description: str, unit: str, service: str) -> str:
    return _SERVICE.format(
        description=description,
        unit=unit,
        user=places.user,
        state=places.state,
        environment=" ".join(f"{key}={value}" for key, value in places.environment.items()),
        service=service,
    )


def _always(command: list[str], pause: int, private_network: bool) -> str:
    lines = [f"ExecStart={_line(command)}", "Restart=always", f"RestartSec={pause}"]
    return "\n".join([*lines, *(["PrivateNetwork=yes"] if private_network else [])])


def _line(command: list[str]) -> str:
    return shlex.join(command)
