"""The names of figures, their units, and whether more or less is better."""

from __future__ import annotations

import re

LOWER, HIGHER, NEITHER = "lower", "higher", "neither"

LABELS = {
    "broker_cpu_s_per_million_deliveries": "broker CPU per million deliveries",
    "broker_cpu_us_per_connect": "broker CPU per connection",
    "broker_cpu_us_per_cycle": "broker CPU per cycle",
    "broker_cpu_us_per_exchange": "broker CPU per exchange",
    "broker_cpu_us_per_publish": "broker CPU per publish",
    "bytes_per_connection": "memory per connection",
    "bytes_per_filter": "memory per filter",
    "bytes_per_retained_message": "memory per retained message",
    "rss_at_start_bytes": "memory at start",
    "rss_growth_bytes": "growth of memory during the run",
    "broker_rss_bytes": "memory of the broker after the run",
    "broker_pss_bytes": "memory of the broker after the run, shared pages counted in part",
    "broker_peak_rss_bytes": "highest memory of the broker",
    "reached_slow_consumer_percent": "share of the messages that reach the slow subscriber",
    "p50_times_fdatasync": "median latency as a multiple of the median fdatasync",
    "p99_times_fdatasync": "99th percentile of the latency as a multiple of that of fdatasync",
    "ready_s": "time from the start after a kill until it listens",
    "first_served_s": "time from the start after a kill until the first client has its messages",
    "filled_rss_bytes": "memory before the kill",
    "recovered_rss_bytes": "memory after the start",
    "recovered_peak_rss_bytes": "highest memory during the start",
    "stored_rss_bytes": "memory before the kill",
    "started_rss_bytes": "memory after the start",
    "directory_bytes": "size of the directory",
    "directory_times_live": "size of the directory as a multiple of what is alive in it",
    "restarted_directory_times_live": "the same after the start",
    "to_all_retained_s": "time until one subscriber has all retained messages",
    "with_servers_cpu_s_per_million_deliveries": "CPU of brokers and nats-servers together per million deliveries",
    "qos0_broker_cpu_s_per_million_deliveries": "broker CPU per million deliveries, one to one at QoS 0",
    "qos0_with_servers_cpu_s_per_million_deliveries": "the same with nats-servers",
    "qos0_fan_out_broker_cpu_s_per_million_deliveries": "broker CPU per million deliveries, one to 30 over all brokers at QoS 0",
    "qos0_fan_out_with_servers_cpu_s_per_million_deliveries": "the same with nats-servers",
    "qos1_broker_cpu_s_per_million_deliveries": "broker CPU per million deliveries, ten pairs at QoS 1",
    "qos1_with_servers_cpu_s_per_million_deliveries": "the same with nats-servers",
    "idle_node_rss_bytes": "memory of each broker, idle",
    "idle_node_cpu_percent": "CPU of each broker, idle",
    "idle_server_cpu_percent": "CPU of each nats-server between idle brokers",
    "acknowledged_per_s": "messages acknowledged",
    "async_nats_acknowledged_per_s": "messages acknowledged, a bare client of NATS on the same servers",
    "ratio_to_async_nats": "share of the rate of a bare client of NATS",
    "servers_cpu_us_per_publish": "CPU of the nats-servers per publish",
    "async_nats_cpu_us_per_publish": "CPU of the bare client of NATS per message",
    "jetstream_assets_added": "streams and consumers made for the clients",
    "session_writes_per_connect": "writes to the bucket of sessions for each client that connects and subscribes",
    "sessions_held_away": "sessions that a broker keeps after their clients have gone",
    "memory_held_away_bytes": "memory that their clients have made it hold",
    "rss_bytes_per_session_away": "growth of memory that is left of each session then",
    "empty_node_serves_s": "time from the start of a broker until it serves, nothing retained",
    "mirrored_s": "the same with all retained messages",
    "fresh_node_rss_bytes": "memory of the broker that has joined",
    "first_back_after_kill_s": "time from the kill until the first session is resumed",
    "all_back_after_kill_s": "time from the kill until all are resumed",
    "all_back_after_lease_s": "time from the end of the dead broker's lease until all are resumed",
    "connects_per_s": "connections opened per second",
    "cycles_per_s": "cycles",
    "deliveries_per_s": "deliveries",
    "round_trips_per_s": "round trips",
    "ratio_to_raw_tcp": "share of the rate of raw TCP",
    "ratio_to_nodelay": "share of the rate with TCP_NODELAY",
    "ratio_of_p50": "share of the rate of raw TCP, of medians",
    "raw_tcp_round_trips_per_s": "raw TCP in the same run",
    "all_back_s": "time until all are connected again",
    "all_delivered_s": "time until everything is delivered",
    "connect_s": "time until all are connected",
    "trigger_to_last_client_s": "time from the message to all until the last client has it",
    "trigger_to_last_reply_s": "time from the message to all until the last reply",
    "correct_percent": "share of the deliveries that should be, and no others",
    "broker_cpu_us_per_delivery": "broker CPU per delivery",
    "broker_cpu_us_per_filter": "broker CPU per subscription",
    "broker_cpu_us_per_handshake": "broker CPU per handshake",
    "broker_cpu_us_per_lookup": "broker CPU per subscription that is answered",
    "broker_cpu_us_per_reconnect": "broker CPU per connection that comes back",
    "broker_cpu_us_per_retained_publish": "broker CPU per message that is retained",
    "broker_cpu_us_per_session": "broker CPU per session that is resumed",
    "broker_cpu_us_per_takeover": "broker CPU per takeover",
    "handshakes_per_s": "handshakes",
    "handshakes_per_broker_cpu_s": "handshakes in a second of the broker's CPU",
    "peak_rss_bytes": "highest memory of the broker",
    "peak_rss_growth_bytes": "growth of the highest memory during the run",
    "publishes_per_s": "publishes",
    "reconnects_per_s": "clients that come back",
    "retained_publishes_per_s": "messages that are retained",
    "retained_deliveries_per_s": "retained messages delivered",
    "bystander_p99_growth_us": "growth of the 99th percentile of the latency of other clients",
}

# Figures with percentiles, by the prefix of their names.
TIMES = {
    "": "latency",
    "first_tenth_": "latency in the first tenth of the run",
    "last_tenth_": "latency in the last tenth of the run",
    "bystander_before_": "latency of other clients before it",
    "bystander_during_": "latency of other clients during it",
    "probe_": "latency of two clients that are busy beside the others",
    "lookup_": "time until a new subscription has its retained messages",
    "to_all_": "time until all have it",
    "broker_killed_own_": "time without service after a kill, clients of the broker that died",
    "broker_killed_elsewhere_": "time without service after a kill, clients of other brokers",
    "leader_killed_": "time without service after a leader of JetStream was killed, all clients",
}

PERCENTILES = {
    "p50_us": "median {}", "p90_us": "90th percentile of the {}", "p99_us": "99th percentile of the {}", "p999_us": "99.9th percentile of the {}",
    "max_us": "longest {}",
}

# The clients of the round trip matrix.
CLIENTS = {
    "c": "C, ours", "c-paho": "C, paho", "rust": "Rust, ours", "go": "Go, ours", "go-paho": "Go, paho",
    "js": "JavaScript, ours", "js-mqttjs": "JavaScript, MQTT.js", "python": "Python, paho",
}

# The unit of the steps of a curve, by its parameter.
STEPS = {
    "window": "{} under way", "payload_bytes": "payloads of {} bytes", "connections": "{} connections", "filters": "{} filters", "messages": "{} retained messages",
}

# The most important figures of each kind of scenario; the others follow.
FIRST = {
    "flood": ["broker_cpu_s_per_million_deliveries", "deliveries_per_s"],
    "rtt": ["ratio_to_raw_tcp", "p50_us", "p99_us", "broker_cpu_us_per_exchange"],
    "idle": ["bytes_per_connection", "rss_at_start_bytes", "connects_per_s", "broker_cpu_us_per_connect"],
    "churn": ["broker_cpu_us_per_cycle", "cycles_per_s"],
    "sync-latency": ["p50_us", "p99_us", "p50_times_fdatasync", "p99_times_fdatasync", "broker_cpu_us_per_publish"],
    "recovery": ["ready_s", "first_served_s", "recovered_rss_bytes", "directory_times_live", "restarted_directory_times_live"],
    "retained-on-disk": ["started_rss_bytes", "ready_s", "bystander_during_p50_us", "bystander_during_p99_us", "bystander_during_max_us"],
    "snapshots": ["bystander_during_p50_us", "bystander_during_p99_us", "bystander_during_max_us", "peak_rss_bytes"],
    "acknowledged": ["acknowledged_per_s", "ratio_to_async_nats", "p50_us", "broker_cpu_us_per_publish"],
    "takeover": ["p50_us", "p99_us"],
    "mirror": ["mirrored_s", "empty_node_serves_s", "to_all_retained_s"],
    "dead-node": ["all_back_after_lease_s", "all_back_after_kill_s", "first_back_after_kill_s"],
    "kills": ["broker_killed_own_p99_us", "broker_killed_elsewhere_p99_us", "leader_killed_p99_us"],
    "nodes": ["idle_node_rss_bytes", "qos0_broker_cpu_s_per_million_deliveries", "qos0_fan_out_broker_cpu_s_per_million_deliveries",
              "qos1_broker_cpu_s_per_million_deliveries"],
    "wildcards": ["bytes_per_filter", "broker_cpu_us_per_publish", "publishes_per_s"],
}

# Figures of the load generator, figures that are the same for all brokers, and figures that are not a quality.
NOT_COMPARED = ("generator_", "raw_tcp_", "busy_cores", "connections", "deliveries_per_publish", "payload_bytes", "sent_per_s",
                "offered_", "subscriptions", "retained_messages", "broker_waits", "broker_preemptions", "fdatasync_", "live_bytes", "fill_s",
                "async_nats_", "servers_c", "takeovers", "sessions", "session_writes", "clients", "attempts_", "jetstream_", "snapshots", "snapshot_")


def base(metric: str) -> str:
    """Returns the name without the step of a curve."""
    return metric.partition("@")[0]


def step(metric: str) -> int | None:
    _, at, text = metric.partition("@")
    return int(text) if at and text.isdigit() else None


def better(metric: str) -> str:
    name = base(metric)
    if (name.startswith(NOT_COMPARED) and not name.startswith("connections_per")) or "send_lag" in name:
        return NEITHER
    if name.endswith(("_per_s", "_per_cpu_s", "_ratio")) or "ratio_" in name or name.endswith(("correct_percent", "reached_slow_consumer_percent")):
        return HIGHER
    if name.endswith(("_times_fdatasync", "_times_live")):
        return LOWER
    if name.endswith(("_us", "_ms", "_ns", "_s", "_bytes", "_allocations")) or "_cpu_" in name or "bytes_per_" in name or "switches" in name:
        return LOWER
    return NEITHER


def label(metric: str, parameter: str = "") -> str:
    """Describes a figure. `parameter` is the unit of the steps, if the figure belongs to a curve."""
    if pair := re.fullmatch(r"([\w-]+)_to_([\w-]+)_qos(\d)_(\w+)", metric):
        client, server = (CLIENTS.get(name, name) for name in (pair[1], pair[2]))
        return f"{client} → {server}, QoS {pair[3]}: {label(pair[4])}"
    name = base(metric)
    known = LABELS.get(name) or _percentile(name) or name.replace("_", " ")
    at = metric.partition("@")[2]
    if not at:
        return known
    count = f"{int(at):,}" if at.isdigit() else "the most" if at == "most" else at
    return f"{known} with {STEPS[parameter].format(count)}" if parameter in STEPS else f"{known}, {count}"


def _percentile(name: str) -> str | None:
    for end, words in PERCENTILES.items():
        if name.endswith(end) and (of := TIMES.get(name.removesuffix(end))):
            return words.format(of)
    return None


def ordered(kind: str, metrics: list[str]) -> list[str]:
    """Sorts the most important figures first, and those that are not comparable last."""
    first = FIRST.get(kind, [])
    rank = {LOWER: 1, HIGHER: 1, NEITHER: 2}
    position = {metric: at for at, metric in enumerate(metrics)}
    return sorted(metrics, key=lambda m: (first.index(base(m)) if base(m) in first else len(first), rank[better(m)], position[m]))


def show(metric: str, value: float) -> str:
    """Formats a value with three significant digits and its unit."""
    name = base(metric)
    if "ratio_" in name or name.endswith("_ratio"):
        return f"{value:.2f}"
    if name.endswith(("_times_fdatasync", "_times_live")):
        return f"{value:.2f} ×"
    if name.endswith("_bytes") or "bytes_per_" in name:
        return _bytes(value)
    if name.endswith("_percent"):
        return f"{_digits(value)} %"
    if name.endswith("megabytes_per_s"):
        return f"{_digits(value)} MB/s"
    if name.endswith(("_per_s", "_per_cpu_s")):
        return f"{_digits(value)}/s"
    if "cpu_s_per" in name or name.endswith("_s"):
        return f"{_digits(value)} s"
    if "_us_" in name or name.endswith("_us"):
        return f"{_digits(value / 1000)} ms" if value >= 10_000 else f"{_digits(value)} µs"
    if name.endswith("_ns") or "_ns_" in name:
        if value >= 10_000:
            return f"{_digits(value / 1000)} µs"
        return f"{_digits(value)} ns"
    return _digits(value)


def _bytes(value: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e4)):
        if abs(value) >= size:
            return f"{_digits(value / (1e3 if unit == 'KB' else size))} {unit}"
    return f"{_digits(value)} B"


def _digits(value: float) -> str:
    if abs(value) >= 1000:
        # Three significant digits, the rest zeros.
        scale = 10 ** (len(str(int(abs(value)))) - 3)
        return f"{round(value / scale) * scale:,}"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"
