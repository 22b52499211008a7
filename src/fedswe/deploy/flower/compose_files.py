"""Docker Compose files of an installation.

All services of a machine share the network namespace of a container that does nothing else, so that no restart
disconnects them. SuperLink and SuperNode listen on its loopback interface, which neither the network nor the users of
the host reach; only nginx listens on the other interface.
"""

from __future__ import annotations

import json
import shlex
from importlib.metadata import version
from typing import TYPE_CHECKING

from fedswe.deploy.flower import install_scripts

if TYPE_CHECKING:
    from fedswe.deploy.flower.installation import Places

_VERSION = version("fedswe")
PROGRAMS, CONFIG, STATE = "/usr/local/bin", "/etc/fedswe", "/var/lib/fedswe"  # in the containers
_USER = 10001  # of the containers

_DOCKERFILE = f"""\
# One image for server and clients. wheels/ holds the wheel of fedswe: pip wheel --no-deps -w wheels CHECKOUT
FROM python:3.11-slim-bookworm
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update && apt-get install -y --no-install-recommends nginx-light && rm -rf /var/lib/apt/lists/*
COPY wheels/ /wheels/
RUN pip install --no-cache-dir --index-url "$TORCH_INDEX" torch \\
 && pip install --no-cache-dir --find-links /wheels 'fedswe[flower]=={_VERSION}'
RUN useradd --uid {_USER} --home-dir {STATE} --shell /usr/sbin/nologin fedswe \\
 && install -d -m 0700 -o fedswe -g fedswe {STATE} {STATE}/nginx
USER {_USER}
"""
_HEAD = f"""\
x-service: &service
  image: fedswe:{_VERSION}
  build: .
  restart: always
  init: true
  user: "{_USER}:{_USER}"
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  tmpfs: ["/tmp:mode=1777"]
  environment: {{environment}}
  volumes: {{volumes}}

services:
  network:  # holds the network namespace of the other services
    <<: *service
    command: ["sleep", "infinity"]
    volumes: []
{{ports}}"""
_SERVICE = """
  {name}:
    <<: *service
    network_mode: "service:network"
    depends_on: [network]
    command: {command}
"""
_TAIL = """
volumes:
  state: {}
"""


def files(places: Places) -> dict[str, str]:
    """Paths below the folder of the installation, and their content."""
    return {
        "server/Dockerfile": _DOCKERFILE,
        "client/Dockerfile": _DOCKERFILE,
        "server/compose.yaml": _server(places),
        "client/compose.yaml": _client(places),
        "server/install.sh": install_scripts.compose_server(_USER),
        "client/install.sh": install_scripts.compose_client(_USER),
    }


def _server(places: Places) -> str:
    submit = " && ".join(
        shlex.join(command) for command in (places.connect_command(), places.keys_command(), places.submit_command())
    )
    services = {
        "superlink": places.superlink_command(),
        "superexec": places.superexec_command(),
        "proxy": places.proxy_command(),
        # Again and again: a submission after a crash continues the run, any other ends at once.
        "submit": ["sh", "-c", f"cd && while true; do {submit} && sleep 600 || sleep 20; done"],
    }
    return _file("fedswe-server", places, [], [f'"{places.port}:{places.port}"'], services)


def _client(places: Places) -> str:
    services = {
        "supernode": places.supernode_command("${CLIENT:?number of the client}"),
        "clientapps": places.client_superexec_command(),
    }
    return _file("fedswe-client", places, ["${DATA:-./data}:/data:ro"], [], services)


def _file(name: str, places: Places, data: list[str], ports: list[str], services: dict[str, list[str]]) -> str:
    head = _HEAD.format(
        environment=json.dumps(places.environment),
        volumes=json.dumps([f"./config:{CONFIG}:ro", f"state:{STATE}", *data]),
        ports=f"    ports: [{', '.join(ports)}]\n" if ports else "",
    )
    blocks = [_SERVICE.format(name=service, command=json.dumps(command)) for service, command in services.items()]
    return f"name: {name}\n\n" + head + "".join(blocks) + _TAIL
