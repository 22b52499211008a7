#!/bin/sh
# Certificates and keys of a federation, in the current folder. Nothing that exists is overwritten.
#   make-keys.sh server fl.example.org    at the server: ca.crt ca.key server.crt server.key
#   make-keys.sh site NAME                at a site: NAME.key stays there, NAME.key.pub goes to the server
#   make-keys.sh register NAME.key.pub    at the server, while the SuperLink runs; config.toml is in FLWR_HOME
set -eu
umask 077

new() {
    for file in "$@"; do
        if [ -e "$file" ]; then echo "error: $file exists: remove it to make a new one" >&2; exit 2; fi
    done
}

what=${1:-} name=${2:?"usage: make-keys.sh server ADDRESS | site NAME | register FILE.pub"}
case $what in
server)
    new server.crt server.key
    case $name in *[!0-9.]*) kind=DNS ;; *) kind=IP ;; esac  # an IPv6 address: write it in the line of openssl x509
    if [ ! -e ca.key ]; then
        new ca.crt
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -days 3650 -subj "/CN=federation" \
            -addext keyUsage=critical,keyCertSign,cRLSign -keyout ca.key -out ca.crt 2>/dev/null
    fi
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -subj "/CN=$name" -keyout server.key -out server.csr 2>/dev/null
    printf 'subjectAltName=%s:%s,DNS:localhost,IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\n' \
        "$kind" "$name" > server.ext
    openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile server.ext -out server.crt 2>/dev/null
    rm server.csr server.ext
    chmod 644 ca.crt server.crt
    ;;
site)
    new "$name.key"
    ssh-keygen -q -t ecdsa -b 384 -N "" -C "$name" -f "$name.key"
    chmod 644 "$name.key.pub"
    ;;
register)
    flwr supernode register "$name" server --name "$(basename "$name" .key.pub)"
    ;;
*)
    echo "usage: make-keys.sh server ADDRESS | site NAME | register FILE.pub" >&2
    exit 2
    ;;
esac
