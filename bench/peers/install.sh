#!/bin/sh
# Installs the brokers that Tautwire is compared with, at pinned versions, into bin/ next to this file. Reports what it cannot
# install, and then exits with 1.
set -u

NATS_SERVER_VERSION=v2.15.2
HIVEMQ_VERSION=2025.5
peers=$(cd "$(dirname "$0")" && pwd)
bin=$peers/bin
brokers=$peers/../../tests/interop/brokers
missing=0

say_missing() {
    echo "missing: $1" >&2
    missing=1
}

has() {
    command -v "$1" >/dev/null
}

# A peer without --version has its version in a file next to it, which also tells which one is installed.
is_there() {
    [ "$(cat "$bin/$1.version" 2>/dev/null)" = "$2" ] && [ -e "$3" ]
}

note_version() {
    printf '%s\n' "$2" >"$bin/$1.version"
}

have_mosquitto() {
    PATH="$PATH:/usr/sbin" command -v mosquitto >/dev/null
}

install_mosquitto() {
    have_mosquitto && return
    if [ "$(id -u)" != 0 ] || ! has apt-get; then
        say_missing "mosquitto: install it as root with your system's package manager, such as: apt-get install mosquitto"
        return
    fi
    # The distribution's service would use port 1883; benchmarks start their own broker.
    keep_stopped=/usr/sbin/policy-rc.d
    if [ ! -e "$keep_stopped" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$keep_stopped"
        chmod +x "$keep_stopped"
        trap 'rm -f "$keep_stopped"' EXIT
    fi
    { apt-get update && apt-get install -y --no-install-recommends mosquitto; } >/dev/null ||
        say_missing "mosquitto: apt-get could not install it"
}

install_nats_server() {
    [ "$("$bin/nats-server" --version 2>/dev/null)" = "nats-server: $NATS_SERVER_VERSION" ] && return
    if ! has go; then
        say_missing "nats-server $NATS_SERVER_VERSION: it is built with Go (https://go.dev/dl), which is not installed"
        return
    fi
    GOBIN="$bin" GOFLAGS="" go install "github.com/nats-io/nats-server/v2@$NATS_SERVER_VERSION" ||
        say_missing "nats-server $NATS_SERVER_VERSION: go install failed"
}

install_mochi() {
    version="mochi-mqtt $(sed -n 's|.*github.com/mochi-mqtt/server/v2 ||p' "$brokers/mochi/go.mod" | head -n 1)"
    is_there mochi "$version" "$bin/mochi" && return
    if ! has go; then
        say_missing "$version: it is built with Go (https://go.dev/dl), which is not installed"
    elif (cd "$brokers/mochi" && go build -o "$bin/mochi" .); then
        note_version mochi "$version"
    else
        say_missing "$version: go build failed"
    fi
}

install_aedes() {
    version="aedes $(sed -n 's|.*"aedes": "\([0-9.]*\)".*|\1|p' "$brokers/aedes/package.json")"
    is_there aedes "$version" "$bin/aedes/node_modules" && return
    if ! has npm; then
        say_missing "$version: npm is not installed"
        return
    fi
    mkdir -p "$bin/aedes"
    cp "$brokers/aedes/package.json" "$brokers/aedes/package-lock.json" "$brokers/aedes/broker.mjs" "$bin/aedes"
    if (cd "$bin/aedes" && npm ci --no-audit --no-fund --loglevel=error); then
        note_version aedes "$version"
    else
        say_missing "$version: npm ci failed"
    fi
}

# Installs a broker of crates.io as a library in a program of this repository: `install_crate NAME`.
install_crate() {
    version=$(sed -n "s|^$1 = .*\"=\([0-9.]*\)\".*|$1 \1|p" "$peers/$1/Cargo.toml")
    [ "$("$bin/$1" --version 2>/dev/null)" = "$version" ] && return
    if ! has cargo; then
        say_missing "$version: cargo is not installed"
    elif (cd "$peers/$1" && CARGO_TARGET_DIR="$bin/target" cargo build --release --locked --quiet); then
        cp "$bin/target/release/tautwire-bench-$1" "$bin/$1"
        rm -rf "$bin/target"
    else
        say_missing "$version: cargo build failed"
    fi
}

install_hivemq() {
    version="HiveMQ CE $HIVEMQ_VERSION"
    is_there hivemq "$version" "$bin/hivemq/HiveMq.class" && return
    if ! has mvn || ! has javac; then
        say_missing "$version: it comes with Maven and a JDK, which are not both installed"
        return
    fi
    if (cd "$peers/hivemq" &&
        mvn --quiet --batch-mode -Dhivemq.version="$HIVEMQ_VERSION" -DoutputDirectory="$bin/hivemq/lib" \
            dependency:copy-dependencies >"$bin/hivemq.log" 2>&1 &&
        javac -cp "$bin/hivemq/lib/*" -d "$bin/hivemq" HiveMq.java >>"$bin/hivemq.log" 2>&1); then
        note_version hivemq "$version"
    else
        say_missing "$version: $(tail -n 1 "$bin/hivemq.log")"
    fi
}

mkdir -p "$bin"
install_mosquitto
install_nats_server
install_mochi
install_aedes
install_crate rumqttd
install_crate rmqtt
install_hivemq

have_mosquitto && PATH="$PATH:/usr/sbin" mosquitto -h | head -n 1
[ -x "$bin/nats-server" ] && "$bin/nats-server" --version
cat "$bin"/*.version 2>/dev/null
for crate in rumqttd rmqtt; do
    [ -x "$bin/$crate" ] && "$bin/$crate" --version
done

exit $missing
