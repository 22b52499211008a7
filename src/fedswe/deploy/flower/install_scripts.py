"""The scripts install.sh, which put the files of an installation in place. Running one again keeps what is there."""

from __future__ import annotations

from fedswe.deploy.flower.places import Places

_HEAD = """\
#!/bin/sh
# @purpose@ Run as root; running it again keeps keys, secrets and state.
set -eu
"""
_NUMBER = """\
client=${1:?give the number of the client: ./install.sh NUMBER}
shift
"""
_PUT = """\
replace=${1:-}
put() {  # A file that is there already may be renewed or edited: it is kept, unless --replace is given.
    if [ ! -e "@config@/$1" ] || [ "$replace" = --replace ]; then
        install -m 0640 "config/$1" "@config@/$1"
    elif ! cmp -s "config/$1" "@config@/$1"; then
        echo "kept: @config@/$1 differs from config/$1; ./install.sh ... --replace overwrites it"
    fi
}
"""
_USER = """\
id @user@ >/dev/null 2>&1 || useradd --system --home-dir @state@ --shell /usr/sbin/nologin @user@
install -d -m 0750 -o root -g @user@ @config@
install -d -m 0700 -o @user@ -g @user@ @state@ @state@/nginx
"""
_SECRET = """\
if [ ! -e @config@/superexec.secret ]; then
    (umask 077; od -An -tx1 -N32 /dev/urandom | tr -d ' \\n' > @config@/superexec.secret)
fi
"""
_KEY = """\
if [ ! -e "@config@/client-$client.key" ]; then
    ssh-keygen -q -t ecdsa -b 384 -N "" -C "client $client" -f "@config@/client-$client.key"
fi
"""
_UNITS = """\
chown -R root:@user@ @config@
chmod -R g=rX,o= @config@
install -m 0644 systemd/* "${UNITS:-/etc/systemd/system}/"
systemctl daemon-reload
"""
_OWN = """\
chown -R @user@:@user@ config
chmod -R go= config
"""
_DATA = """\
data=${DATA:-$(sed -n 's/^DATA=//p' .env 2>/dev/null || true)}
printf 'CLIENT=%s\\nDATA=%s\\n' "$client" "${data:-./data}" > .env
"""
_SHOW_KEY = """\
echo "public key of client $client, for the operator of the server:"
cat "@config@/client-$client.key.pub"
"""


def systemd_server(places: Places) -> str:
    script = _head("Puts the files of the server in place.") + _USER
    script += _PUT + "for file in ca.crt server.crt server.key nginx.conf config.toml; do put $file; done\n"
    script += "[ -e @config@/app ] || cp -r config/app @config@/\n"
    script += _SECRET + _UNITS
    script += (
        'echo "next: systemctl enable --now fedswe-superlink fedswe-superexec fedswe-forward.socket fedswe-proxy '
        'fedswe-submit.timer"\n'
    )
    return _filled(script, places)


def systemd_client(places: Places) -> str:
    script = _head("Puts the files of client NUMBER in place: ./install.sh NUMBER.", _NUMBER) + _USER
    script += _PUT + "put ca.crt\n" + _KEY + _UNITS + _SHOW_KEY
    script += 'echo "next: systemctl enable --now fedswe-node@$client"\n'
    return _filled(script, places)


def compose_server(user: int) -> str:
    """`user`: whom the containers run as."""
    script = _head("Makes the secret of the server and gives the files to the user of the containers.") + _SECRET + _OWN
    script += 'echo "next: docker compose up --build --detach"\n'
    return script.replace("@config@", "config").replace("@user@", str(user))


def compose_client(user: int) -> str:
    purpose = "Makes the key of client NUMBER, and notes where its data are: DATA=/path/to/data ./install.sh NUMBER."
    script = _head(purpose, _NUMBER) + _KEY
    script += _DATA + _OWN + _SHOW_KEY
    script += 'echo "next: docker compose up --build --detach"\n'
    return script.replace("@config@", "config").replace("@user@", str(user))


def _head(purpose: str, arguments: str = "") -> str:
    return _HEAD.replace("@purpose@", purpose) + arguments + 'cd "$(dirname "$0")"\n'


def _filled(script: str, places: Places) -> str:
    for name in ("user", "config", "state"):
        script = script.replace(f"@{name}@", getattr(places, name))
    return script
