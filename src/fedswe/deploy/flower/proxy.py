"""nginx in front of the SuperLink: it terminates TLS and forwards the requests of SuperNodes, and nothing else.

A SuperLink serves Fleet, Control and Runtime API on one port, and its Control API lets everybody run code on all nodes.
So the SuperLink listens on loopback, and only nginx is reachable from outside.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

# What a SuperNode with a registered key requests (flwr.supernode.fleet_http_client). Left out are register-node and
# unregister-node, which only nodes without a key use.
FLEET_PATHS = tuple(
    f"/v1/fleet/{name}"
    for name in (
        "activate-node", "deactivate-node", "send-node-heartbeat", "pull-messages", "push-messages", "get-run",
        "get-fab", "push-object", "pull-object", "confirm-message-received",
    )
)  # fmt: skip

# All paths are relative: to the folder of the configuration for certificates, to nginx's prefix (-p) for the rest.
_CONFIGURATION = """\
# Written by fedswe. Only the requests of SuperNodes pass; every other path is answered with 404.
pid nginx.pid;
error_log stderr warn;
worker_rlimit_nofile 4096;
events {{ worker_connections 1024; }}

http {{
    access_log off;
    server_tokens off;
    default_type application/octet-stream;

    # Bodies are kept in nginx's own folder, which only its owner can read.
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;

    # Flower sends a model in parts of 5 MiB; its headers are a key, a signature and versions, 1 kB in all.
    client_max_body_size 32m;
    client_body_buffer_size 256k;
    client_header_buffer_size 2k;
    large_client_header_buffers 2 8k;
    client_header_timeout 10s;
    client_body_timeout 30s;
    send_timeout 30s;
    keepalive_timeout 65s;

    # Per address, which many clients may share. Flower repeats a request that is answered with 503.
    limit_req_zone $binary_remote_addr zone=requests:4m rate=100r/s;
    limit_conn_zone $binary_remote_addr zone=connections:4m;
    limit_req_status 503;
    limit_conn_status 503;

    upstream superlink {{
        server {superlink};
        keepalive 16;
    }}

    server {{
        listen {listen} ssl;
        ssl_certificate {keys}server.crt;
        ssl_certificate_key {keys}server.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:tls:2m;
        limit_req zone=requests burst=500 nodelay;
        limit_conn connections 256;

        # Flower's node keys need TLS at the SuperLink too. nginx checks that it talks to this federation's SuperLink.
        proxy_ssl_trusted_certificate {keys}ca.crt;
        proxy_ssl_verify on;
        proxy_ssl_name localhost;
        proxy_ssl_protocols TLSv1.2 TLSv1.3;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host localhost;
        proxy_connect_timeout 5s;
        proxy_read_timeout 60s;
        proxy_next_upstream off;

{locations}
        location / {{ return 404; }}
    }}
}}
"""
# The path is named once more in proxy_pass: the SuperLink gets exactly this path, whatever way it was written.
_LOCATION = "        location = {path} {{ limit_except POST {{ deny all; }} proxy_pass https://superlink{path}; }}"


@dataclass(frozen=True)
class Proxy:
    """`listen` is an address and port; `superlink` an address and port, or unix:PATH; `keys` a folder ending with /."""

    listen: str
    superlink: str
    keys: str = ""

    def configuration(self) -> str:
        locations = "\n".join(_LOCATION.format(path=path) for path in FLEET_PATHS)
        return _CONFIGURATION.format(superlink=self.superlink, listen=self.listen, keys=self.keys, locations=locations)


def find_nginx() -> str | None:
    """The program nginx, also where Debian puts it, which is not on every user's PATH."""
    return shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))
