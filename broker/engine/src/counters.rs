//! The counters. Each shard has its own and is their only writer, so that counting costs a plain addition; any thread can read them.

use std::sync::atomic::{AtomicU64, Ordering};

/// One counter or gauge with a single writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; only the owning shard may call it.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Subtracts; only the owning shard may call it.
    #[inline]
    pub fn subtract(&self, n: u64) {
        self.add(n.wrapping_neg());
    }

    /// Adds from any thread. No other method may change this counter.
    pub fn add_from_any_thread(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// The counters of one shard.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: Counter,)*
        }

        /// A sum over all shards at one moment.
        #[derive(Debug, Default, Clone)]
        pub struct Totals {
            $($(#[doc = $doc])+ pub $name: u64,)*
        }

        impl Totals {
            /// Sums the counters of these shards.
            pub fn of<'a>(shards: impl IntoIterator<Item = &'a Counters>) -> Totals {
                let mut totals = Totals::default();
                for shard in shards {
                    $(totals.$name = totals.$name.wrapping_add(shard.$name.get());)*
                }
                totals
            }

            /// Each name with its description, in the order of [`Totals::each`].
            pub const DESCRIPTIONS: &[(&str, &str)] = &[$((stringify!($name), concat!($($doc),+).trim_ascii()),)*];

            /// Visits each name with its value.
            pub fn each(&self, mut visit: impl FnMut(&'static str, u64)) {
                $(visit(stringify!($name), self.$name);)*
            }
        }
    };
}

counters! {
    /// Connections open now.
    connections,
    /// Connections accepted so far.
    connections_accepted,
    /// Connections closed on arrival because of the limit on connections or for want of descriptors.
    connections_refused,
    /// Connections closed on accept because of the limit per address.
    connections_refused_for_address,
    /// Connections closed on arrival because their address is banned.
    connections_refused_banned,
    /// Connections closed on accept because of a connect rate limit.
    connections_refused_for_rate,
    /// Addresses evicted from the connect rate table because it was full.
    connect_rate_entries_evicted,
    /// Sessions that exist now.
    sessions,
    /// Sessions whose client is connected now.
    sessions_connected,
    /// Sessions ended by their expiry interval.
    sessions_expired,
    /// Sessions taken over by a new connection of the same client.
    sessions_taken_over,
    /// CONNECT packets answered with success.
    connects,
    /// CONNECT packets answered with an error.
    connects_refused,
    /// CONNECT packets refused because the client could not authenticate or is banned.
    connects_not_authenticated,
    /// Clients disconnected because re-authentication failed.
    reauthentications_refused,
    /// Connections closed because the client's credentials were no longer valid.
    credentials_expired_disconnects,
    /// Connections ended because their listener has been taken away.
    listener_removed_disconnects,
    /// Connections that were ended for malformed packets or protocol errors.
    protocol_errors,
    /// Connections that were ended by keep alive.
    keep_alive_timeouts,
    /// Connections that sent no complete CONNECT in time.
    connect_timeouts,
    /// Connections whose packet was not complete in time.
    incomplete_packet_timeouts,
    /// Connections that took no output for too long.
    write_stall_timeouts,
    /// Packets over the maximum packet size.
    packets_too_large,
    /// Connections that were ended because the client had more messages in flight than Receive Maximum.
    receive_maximum_exceeded,
    /// Control packets received.
    packets_received,
    /// Control packets sent.
    packets_sent,
    /// Bytes received.
    bytes_received,
    /// Bytes sent.
    bytes_sent,
    /// PUBLISH packets received.
    publishes_received,
    /// PUBLISH packets sent.
    publishes_sent,
    /// Payload bytes of PUBLISH packets received.
    publish_bytes_received,
    /// Payload bytes of PUBLISH packets sent.
    publish_bytes_sent,
    /// Messages refused with a reason code or passed over: topic not allowed, payload not as indicated, over a limit.
    publishes_refused,
    /// Messages refused by the access rules.
    publishes_not_authorized,
    /// Messages refused because their payload was larger than `limits.payload_bytes`.
    payloads_too_large,
    /// Retained messages not sent to a new subscriber because their publisher is no longer allowed to publish them.
    retained_withheld,
    /// Payloads validated against a contract.
    payloads_checked,
    /// Payloads that violated a contract with on_violation = observe.
    violations_observed,
    /// Payloads rejected because they violated a contract, including those whose publisher was disconnected.
    violations_rejected,
    /// Payloads quarantined because they violated a contract.
    violations_quarantined,
    /// Payloads transcoded for subscribers that requested another format.
    payloads_transcoded,
    /// Messages dropped because they could not be transcoded and the subscriber could not be notified.
    dropped_not_transcodable,
    /// QoS 1 and 2 messages queued although the client was connected: its in-flight limit was reached or its output
    /// was full.
    messages_queued_in_flight_full,
    /// QoS 0 messages dropped because a client's output was full.
    dropped_output_full,
    /// QoS 1 and 2 messages dropped because a session's queue was full.
    dropped_queue_full,
    /// QoS 1 and 2 messages dropped because the queue limit of a user was reached.
    dropped_queue_full_for_user,
    /// QoS 1 and 2 messages dropped because the memory limit of a client was reached.
    dropped_queue_full_for_memory,
    /// Messages dropped because the memory limit of all clients was reached.
    dropped_memory_full,
    /// QoS 0 messages dropped because the queue to another thread was full.
    dropped_shard_queue_full,
    /// Messages that expired before delivery.
    dropped_expired,
    /// Messages larger than the client's Maximum Packet Size.
    dropped_too_large,
    /// Messages dropped because their topic is outside the client's mount point.
    dropped_outside_mount,
    /// Messages to a shared subscription without members.
    dropped_no_member,
    /// Messages of QoS 1 and 2 for which no member of a shared subscription had room, so that they waited in its queue.
    shared_messages_queued,
    /// Messages that a member of a shared subscription had not acknowledged in time, and that went to other members.
    shared_messages_redispatched,
    /// Messages of QoS 1 and 2 refused because the queue of a shared subscription was full.
    publishes_refused_shared_queue,
    /// Times the subscriptions of a session were closed for QoS 1 and 2 messages because its memory share or queue
    /// was exhausted.
    sessions_throttled,
    /// Messages of QoS 1 and 2 refused because the queue of a session was full.
    publishes_refused_queue_full,
    /// Times reading from a publisher was paused because the queue of a session was full.
    publishers_paused_for_session_queue,
    /// Stale sessions now: those whose client has been offline for longer than `limits.stale_session_s` while
    /// messages wait for it.
    sessions_stale,
    /// Messages of QoS 1 and 2 refused because there was no memory for them.
    publishes_refused_memory,
    /// Times reading from an MQTT 3.1.1 publisher was paused for lack of memory.
    publishers_paused_for_memory,
    /// Connections, wills, filters, aliases and incomplete packets refused for lack of memory.
    resources_refused_memory,
    /// Times reading from a publisher was paused because the queue to another thread was full.
    publishers_paused_for_shard_queue,
    /// Times reading from a client was paused because it did not read its output.
    clients_paused_for_output,
    /// Times reading from a client was paused because too many of its acknowledgements waited for the disk.
    clients_paused_for_disk,
    /// Times reading from a client was paused because the log accepted no more writes.
    clients_paused_for_log,
    /// Times reading from a client was paused because messages could not be spilled to disk fast enough.
    clients_paused_for_spill,
    /// Times reading from a client was paused because of its publish rate limit.
    clients_paused_for_rate,
    /// Times reading from a client was paused because the transcoding budget of the turn was exhausted.
    clients_paused_for_transcoding,
    /// Fan-outs that were split over several turns because of their number of receivers or their size.
    fan_outs_deferred,
    /// Commands from outside the shards that a shard had no capacity for.
    commands_rejected,
    /// Admin queries canceled because nobody waited for the result any longer.
    admin_queries_canceled,
    /// Searches for retained messages that were continued in a later turn.
    retained_scans_deferred,
    /// Times TCP_QUICKACK was set for a client that waits for TCP acknowledgements.
    quickacks_sent,
    /// Connections for which TCP_QUICKACK was disabled because it did not help.
    quickacks_disabled,
    /// Messages spilled to disk now.
    spilled_messages,
    /// Bytes spilled to disk now.
    spilled_bytes,
    /// Bytes of the spill files now.
    spill_file_bytes,
    /// Messages spilled to disk.
    spill_writes,
    /// Messages read back from disk.
    spill_reads,
    /// Messages that could not be spilled and stayed in memory.
    spill_write_failures,
    /// Messages not spilled because of the size limit of the spill files.
    spill_limit_reached,
    /// Spilled messages that could not be read back; delivery is paused and retried every second.
    spill_read_failures,
    /// Spilled messages that are needed and unreadable now.
    spill_unreadable,
    /// Times a read of a spilled message was deferred.
    spill_reads_deferred,
    /// Spilled messages that were missing; a bug.
    spill_lost,
    /// Times clients were held to settings other than those of their CONNACK because the configuration changed too
    /// often.
    client_settings_superseded,
    /// Log lines dropped because standard error was not read in time.
    log_lines_dropped,
    /// Audit log lines dropped because the file was not written in time or because of the rate limit.
    audit_lines_dropped,
    /// Messages refused because there was no disk to keep them.
    publishes_refused_disk,
    /// Sessions, subscriptions and connections refused or closed for lack of disk space.
    resources_refused_disk,
    /// Retained messages refused by a limit.
    retained_refused,
    /// Retained messages refused because a client, or a user, had reached its limit.
    retained_refused_for_client,
    /// Messages waiting in sessions now: queued or not acknowledged.
    stored_messages,
    /// Bytes of those.
    stored_bytes,
    /// Bytes of output waiting for connections now.
    output_bytes,
    /// Subscriptions now, shared ones included.
    subscriptions,
    /// Subscriptions refused by a limit.
    subscriptions_refused,
    /// Subscriptions refused because a user had reached its limit.
    subscriptions_refused_for_user,
    /// Subscriptions refused by the access rules.
    subscriptions_not_authorized,
    /// Subscriptions removed because the access rules no longer allow them.
    subscriptions_revoked,
    /// Wills refused or not published because the access rules do not allow them.
    wills_not_authorized,
    /// Messages that had waited and that the access rules do not allow any more.
    dropped_not_authorized,
    /// Clients blocked because of flapping.
    clients_flapping_blocked,
    /// CONNECT packets refused because the client was blocked for flapping.
    connects_refused_flapping,
    /// Clients evicted from the flapping table because it was full.
    flapping_entries_evicted,
    /// TLS handshakes that were completed.
    tls_handshakes,
    /// TLS handshakes that resumed an earlier session.
    tls_handshakes_resumed,
    /// TLS handshakes that failed.
    tls_handshakes_failed,
    /// Connections closed on accept because of the limit on TLS handshakes.
    tls_handshakes_refused,
    /// TLS handshakes of idle clients closed to make room for new ones.
    tls_handshakes_evicted,
    /// Connections that were ended for breaking the rules of TLS after the handshake.
    tls_errors,
    /// PROXY protocol headers accepted.
    proxy_headers,
    /// Connections closed because of a missing or rejected PROXY header.
    proxy_headers_refused,
    /// Connections closed because their peer is not a trusted proxy.
    proxy_untrusted_connections_refused,
    /// WebSocket handshakes answered with success.
    websocket_handshakes,
    /// WebSocket handshakes answered with an error.
    websocket_handshakes_refused,
    /// Connections that were ended for breaking the rules of WebSocket.
    websocket_errors,
    /// Connections that were ended for a WebSocket frame or message over its limit.
    websocket_frames_too_large,
    /// WebSocket pings not answered because a newer one had arrived.
    websocket_pings_skipped,
    /// Clients refused because their session could not be claimed in the cluster.
    session_claims_refused,
    /// Sessions that another node has claimed.
    session_claims_lost,
    /// Times the node's cluster lease expired.
    cluster_lease_expirations,
    /// Times reading from a client was paused because too many of its messages waited for the cluster log.
    clients_paused_for_cluster,
    /// Messages acknowledged at `memory` that the cluster log did not store, as far as this broker knows.
    acknowledged_messages_lost,
    /// Subscriptions made before the cluster log had caught up with all retained messages.
    subscriptions_before_catch_up,
    /// Retained messages used in a search before the cluster confirmed that all nodes find them.
    retained_messages_unconfirmed,
    /// Subscriptions refused because the state of their session would exceed the size that the cluster can store.
    subscriptions_refused_state_size,
    /// Connections closed because the state of their session exceeded the size that the cluster can store.
    session_states_too_large,
    /// Clients refused because their will is larger than the cluster can store.
    wills_too_large,
    /// Tombstones of deleted retained messages evicted because there were too many.
    retained_tombstones_evicted,
    /// Messages that a session reads later from the cluster log because its queue was full.
    messages_deferred_to_log,
    /// Messages that a shared subscription reads later from the cluster log because its queue was full.
    share_messages_deferred_to_log,
    /// Messages dropped because the cluster log no longer had them.
    dropped_log_retention,
    /// QoS 0 messages not sent to other nodes because the queue to the cluster was full.
    dropped_cluster_queue_full,
}

impl Totals {
    /// All messages dropped because a buffer, a queue or memory was full.
    pub fn dropped(&self) -> u64 {
        self.dropped_output_full + self.dropped_queue_full + self.dropped_memory_full + self.dropped_shard_queue_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gauges_add_up_across_shards() {
        let shards = [Counters::default(), Counters::default()];
        shards[0].stored_messages.add(3);
        shards[1].stored_messages.subtract(1);
        assert_eq!(Totals::of(&shards).stored_messages, 2);
    }
}
