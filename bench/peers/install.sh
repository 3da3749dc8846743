#!/bin/sh
# Installs the brokers that Tautwire is measured beside. Says what it cannot have; ends with 1 then.
set -u

NATS_SERVER_VERSION=v2.15.2
bin=$(cd "$(dirname "$0")" && pwd)/bin
missing=0

say_missing() {
    echo "missing: $1" >&2
    missing=1
}

have_mosquitto() {
    PATH="$PATH:/usr/sbin" command -v mosquitto >/dev/null
}

if ! have_mosquitto; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        # The distribution's service would hold port 1883; measurements start their own broker.
        keep_stopped=/usr/sbin/policy-rc.d
        if [ ! -e "$keep_stopped" ]; then
            printf '#!/bin/sh\nexit 101\n' >"$keep_stopped"
            chmod +x "$keep_stopped"
            trap 'rm -f "$keep_stopped"' EXIT
        fi
        { apt-get update && apt-get install -y --no-install-recommends mosquitto; } >/dev/null ||
            say_missing "mosquitto: apt-get could not install it"
    else
        say_missing "mosquitto: install it as root with your system's package manager, such as: apt-get install mosquitto"
    fi
fi
have_mosquitto && PATH="$PATH:/usr/sbin" mosquitto -h | head -n 1

if [ "$("$bin/nats-server" --version 2>/dev/null)" != "nats-server: $NATS_SERVER_VERSION" ]; then
    if command -v go >/dev/null; then
        GOBIN="$bin" GOFLAGS='' go install "github.com/nats-io/nats-server/v2@$NATS_SERVER_VERSION" ||
            say_missing "nats-server $NATS_SERVER_VERSION: go install failed"
    else
        say_missing "nats-server $NATS_SERVER_VERSION: it is built with Go (https://go.dev/dl), which is not installed"
    fi
fi
[ -x "$bin/nats-server" ] && "$bin/nats-server" --version

exit $missing
