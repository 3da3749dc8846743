//! What is counted. Each shard has its own counters and is their only writer, so that counting costs a plain addition;
//! anyone may read them.

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

    /// Adds from any thread, to a counter that nobody changes in another way.
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
            /// Sums up.
            pub fn of<'a>(shards: impl IntoIterator<Item = &'a Counters>) -> Totals {
                let mut totals = Totals::default();
                for shard in shards {
                    $(totals.$name = totals.$name.wrapping_add(shard.$name.get());)*
                }
                totals
            }

            /// Every name with its meaning, in one order with [`Totals::each`].
            pub const DESCRIPTIONS: &[(&str, &str)] = &[$((stringify!($name), concat!($($doc),+).trim_ascii()),)*];

            /// Every name with its value, for reports.
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
    /// Connections closed on arrival because as many from their address were open as may be.
    connections_refused_for_address,
    /// Connections closed on arrival because their address is banned.
    connections_refused_banned,
    /// Connections closed on arrival because connections came faster than they may, from their address or all together.
    connections_refused_for_rate,
    /// Addresses of which it was forgotten how fast they connect, because there were too many.
    connect_rates_forgotten,
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
    /// Clients that authenticated again while they were connected, in vain.
    reauthentications_refused,
    /// Connections that were ended because what their client had shown held no longer.
    identities_ended,
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
    /// Those of them whose payload was larger than `limits.payload_bytes`.
    payloads_too_large,
    /// Retained messages that were not sent to a new subscriber, because their publisher may not publish them any more.
    retained_withheld,
    /// Payloads held to a contract.
    payloads_checked,
    /// Payloads that broke a contract which only observes.
    violations_observed,
    /// Payloads that broke a contract and went no further; those whose publisher was disconnected too.
    violations_rejected,
    /// Payloads that broke a contract and went into quarantine.
    violations_quarantined,
    /// Payloads turned into another format for subscribers who asked for it.
    payloads_transcoded,
    /// Messages that could not be turned into the format a subscriber asked for, and that it could not be told of.
    dropped_untranscodable,
    /// QoS 1 and 2 messages that had to wait although their client was there: it had as many in flight as it may, or did not take
    /// its output.
    messages_held_back,
    /// QoS 0 messages dropped because a client's output was full.
    dropped_output_full,
    /// QoS 1 and 2 messages dropped because a session's queue was full.
    dropped_queue_full,
    /// QoS 1 and 2 messages dropped because a user's sessions queued as much as the user may.
    dropped_queue_full_for_user,
    /// Those of them that were dropped because the session held as much memory as it may.
    dropped_queue_full_for_memory,
    /// Messages dropped because all buffers together were full.
    dropped_memory_full,
    /// QoS 0 messages dropped because the queue to another thread was full.
    dropped_shard_queue_full,
    /// Messages that expired before delivery.
    dropped_expired,
    /// Messages larger than the client's Maximum Packet Size.
    dropped_too_large,
    /// Messages whose topics matched a filter of a client, and lie outside of its mount point.
    dropped_outside_mount,
    /// Messages to a shared subscription without members.
    dropped_no_member,
    /// Messages of QoS 1 and 2 for which no member of a shared subscription had room, so that they waited in its queue.
    shared_messages_queued,
    /// Messages that a member of a shared subscription had not acknowledged in time, and that went to other members.
    shared_messages_redispatched,
    /// Messages of QoS 1 and 2 refused because the queue of a shared subscription was full.
    publishes_refused_shared_queue,
    /// Times a session held more than its share of memory, or its queue was full, and its filters were closed for messages of QoS 1 and 2.
    sessions_throttled,
    /// Messages of QoS 1 and 2 refused because the queue of a session was full.
    publishes_refused_queue_full,
    /// Times a publisher was not read from because the queue of a session was full.
    publishers_paused_for_queue,
    /// Sessions now whose client has been offline for longer than `limits.neglected_session_s` while messages wait for it.
    sessions_neglected,
    /// Messages of QoS 1 and 2 refused because there was no memory for them.
    publishes_refused_memory,
    /// Times a publisher of 3.1.1 was not read from because there was no memory for what it sent.
    publishers_short_of_memory,
    /// Connections, wills, filters, aliases and incomplete packets refused because there was no memory for them.
    refused_memory,
    /// Times a publisher was not read from because the queue to another thread was full.
    publishers_paused,
    /// Times a client was not read from because it did not take its output.
    clients_choked,
    /// Times a client was not read from because too many acknowledgements for it waited for the disk.
    clients_ahead_of_disk,
    /// Times a client was not read from because the log took no more.
    clients_paused_for_log,
    /// Times a client was not read from because messages came faster than they could leave memory.
    clients_paused_for_cold,
    /// Times a client was not read from because it published faster than it may.
    clients_paused_for_rate,
    /// Times a client was not read from because what it published was wanted in other formats, and the turn had made as many as it may.
    clients_paused_for_formats,
    /// Times that what a client or another thread sent had so many receivers, or was so much for them, that these were
    /// written to in turns and no more was taken from there meanwhile.
    fan_outs_put_off,
    /// Orders from outside the threads, such as messages of operators, that a thread had no room for.
    orders_refused,
    /// Searches of clients, retained messages or topics that have ended because nobody waited for the answer any more.
    surveys_abandoned,
    /// Times that the search for retained messages for a subscription was long and went on in a later turn.
    retained_scans_put_off,
    /// Times TCP was told to acknowledge at once what a client had sent, as it would have waited for that.
    quickacks_sent,
    /// Times that was given up for a connection, as its client took as long all the same.
    quickacks_given_up,
    /// Messages on disk instead of in memory now.
    cold_messages,
    /// Bytes of those.
    cold_bytes,
    /// Bytes of the files that they are in.
    cold_file_bytes,
    /// Messages written to disk to leave memory.
    cold_writes,
    /// Messages read back from there.
    cold_reads,
    /// Messages that could not be written there and stayed in memory.
    cold_write_failures,
    /// Messages that were not written there because of the limit on its files.
    cold_refused,
    /// Messages that could not be read back. Their clients stand still, and it is tried again each second.
    cold_read_failures,
    /// Messages now that are needed and could not be read back.
    cold_unreadable,
    /// Times that a client had to wait because so much was being read for others.
    cold_reads_put_off,
    /// Messages that were needed and not in memory, against all expectation.
    cold_lost,
    /// Times that settings changed so often that clients are held to others than they have been told.
    terms_replaced,
    /// Lines of the log that were lost because standard error was not read in time.
    log_lines_lost,
    /// Lines of the audit log that were lost because the file was not written in time, or held back because strangers brought about too many.
    audit_lines_lost,
    /// Messages refused because there was no disk to keep them.
    publishes_refused_disk,
    /// Sessions, subscriptions and connections refused or ended because there was no disk to keep them.
    refused_disk,
    /// Retained messages refused by a limit.
    retained_refused,
    /// Retained messages refused because a client, or a user, had as many as it may.
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
    /// Subscriptions refused because a user had as many as it may.
    subscriptions_refused_for_user,
    /// Subscriptions refused by the access rules.
    subscriptions_not_authorized,
    /// Subscriptions taken away because the access rules do not allow them any more.
    subscriptions_taken_away,
    /// Wills refused or not published because the access rules do not allow them.
    wills_not_authorized,
    /// Messages that had waited and that the access rules do not allow any more.
    dropped_not_authorized,
    /// Clients held back for a time, because their connections broke off too often.
    clients_held_back,
    /// CONNECTs of such clients that were refused.
    connects_held_back,
    /// Clients whose connections had broken off and that were forgotten for others.
    clients_forgotten,
    /// TLS handshakes that were completed.
    tls_handshakes,
    /// TLS handshakes that resumed an earlier session.
    tls_handshakes_resumed,
    /// TLS handshakes that failed.
    tls_handshakes_failed,
    /// Connections by TLS that were closed on arrival because as many were in a handshake as may be.
    tls_handshakes_refused,
    /// Connections that were closed in the midst of a TLS handshake, because their client had been silent and others came.
    tls_handshakes_displaced,
    /// Connections that were ended for breaking the rules of TLS after the handshake.
    tls_errors,
    /// Headers of proxies that said whom they speak for.
    proxy_headers,
    /// Connections that were ended because they did not begin with such a header.
    proxy_headers_refused,
    /// Connections that were closed on arrival because their peer is no proxy that is trusted.
    proxy_peers_refused,
    /// WebSocket handshakes answered with success.
    websocket_handshakes,
    /// WebSocket handshakes answered with an error.
    websocket_handshakes_refused,
    /// Connections that were ended for breaking the rules of WebSocket.
    websocket_errors,
    /// Connections that were ended for a WebSocket frame or message over its limit.
    websocket_frames_too_large,
    /// WebSocket pings left unanswered for newer ones.
    websocket_pings_passed_over,
    /// Clients that were refused because their session could not be had from the cluster.
    claims_refused,
    /// Sessions that turned out to be another node's.
    sessions_lost,
    /// Times that the node's lease in its cluster has run out.
    suspensions,
    /// Times that a client was not read from because too much was on its way to the log of the cluster.
    clients_ahead_of_cluster,
    /// Messages that were acknowledged at `memory` and that the log of the cluster has not taken, as far as this broker knows.
    acknowledged_not_stored,
    /// Subscriptions that were made although the log of the cluster had not brought yet all that was retained before.
    subscriptions_ahead_of_log,
    /// Retained messages that a search has shown, or may show, although the cluster has not confirmed in time that all nodes find them.
    retained_unconfirmed,
    /// Subscriptions that were refused because the state of their session would become larger than the cluster keeps.
    subscriptions_beyond_state,
    /// Sessions whose connection was ended because their state had become larger than the cluster keeps.
    states_too_large,
    /// Clients that were not let in because their will is larger than the cluster keeps.
    wills_too_large,
    /// Topics that were cleared, and of which it is not remembered where, because too many were.
    retained_clears_forgotten,
    /// Messages for which a session had no room, so that it reads them from the log of the cluster later.
    messages_left_in_log,
    /// Messages for which no member of a shared subscription had room, so that its group reads them from the log of the cluster later.
    group_messages_held,
    /// Messages, or groups of them, that were not in the log of the cluster any more when they were read.
    dropped_aged_out,
    /// Messages of QoS 0 that were not sent to other nodes because too many waited.
    dropped_cluster_full,
}

impl Totals {
    /// All messages that were dropped for want of room.
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
