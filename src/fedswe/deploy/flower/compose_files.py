"""Docker Compose files of an installation.

The services of the server share the network namespace of a container that does nothing else, so that no restart
disconnects them. The SuperLink listens on its loopback interface, which neither the network nor the users of the host
reach; only nginx listens on the other interface. A client is one container.
"""

from __future__ import annotations

import json
import shlex
from importlib.metadata import version

from fedswe.deploy.flower import install_scripts
from fedswe.deploy.flower.places import Places

_VERSION = version("fedswe")
PROGRAMS, CONFIG, STATE = "/usr/local/bin", "/etc/fedswe", "/var/lib/fedswe"  # in the containers
_USER = 10001  # of the containers

_DOCKERFILE = f"""\
# One image for server and clients. wheels/ holds the wheel of fedswe: pip wheel --no-deps -w wheels CHECKOUT
FROM python:3.11-slim-bookworm
# The index of a build of torch for CPUs makes a smaller image: --build-arg TORCH_INDEX=...
ARG TORCH_INDEX=
RUN apt-get update && apt-get install -y --no-install-recommends nginx-light && rm -rf /var/lib/apt/lists/*
COPY wheels/ /wheels/
RUN pip install --no-cache-dir ${{TORCH_INDEX:+--index-url "$TORCH_INDEX"}} torch \\
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
"""
_NETWORK = """\
  network:  # holds the network namespace of the other services
    <<: *service
    command: ["sleep", "infinity"]
    volumes: []
    ports: ["{port}:{port}"]
"""
_SERVICE = """
  {name}:
    <<: *service
    network_mode: "service:network"
    depends_on: [network]
    command: {command}
"""
_CLIENT = """\
  node:
    <<: *service
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
    blocks = [_SERVICE.format(name=name, command=json.dumps(command)) for name, command in services.items()]
    return _head("fedswe-server", places) + _NETWORK.format(port=places.port) + "".join(blocks) + _TAIL


def _client(places: Places) -> str:
    command = json.dumps(places.node_command("${CLIENT:?number of the client}"))
    return _head("fedswe-client", places, "${DATA:-./data}:/data:ro") + _CLIENT.format(command=command) + _TAIL


def _head(name: str, places: Places, *volumes: str) -> str:
    mounted = [f"./config:{CONFIG}:ro", f"state:{STATE}", *volumes]
    head = _HEAD.format(environment=json.dumps(places.environment), volumes=json.dumps(mounted))
    return f"name: {name}\n\n" + head
