/*
 * Persists the session. Each change of an exchange becomes a record, in order, and before any packet is sent that depends on it:
 *
 *     a message                before tw_client_publish() answers
 *     SENT_UP_TO               before a message leaves that the store does not know as sent
 *     RELEASED                 before PUBREL, so that the message is not published a second time [MQTT-4.3.3-4]
 *     ACCEPTED                 before PUBREC, so that the message is not delivered a second time [MQTT-4.3.3-10]
 *     COMPLETED                before PUBCOMP, after which the server may use the identifier for another message
 *     SESSION                  before anything is sent to a session that the server has made anew [MQTT-3.2.2-5]
 *     FINISHED                 may be lost: the exchange is then repeated, and the server knows it
 *
 * The head of a record: kind, detail, packet identifier (2 bytes); for a message also state and version. Its body is the packet, or
 * for SESSION the client identifier. An unknown record, or one that contradicts the earlier records, is an error.
 */

#if TW_STORE
enum {
    SAVED_MESSAGE = 1,
    SAVED_SESSION,
    SAVED_SENT_UP_TO,
    SAVED_UNSENT,
    SAVED_RELEASED,
    SAVED_FINISHED,
    SAVED_ACCEPTED,
    SAVED_COMPLETED
};

/* How many messages one SENT_UP_TO covers. More would save records, but leave more messages in doubt after a lost session. */
#define SENT_AT_ONCE 16u

typedef struct saved {
    uint8_t head[TW_STORE_HEAD_BYTES];
    tw_bytes body;
    bool must_last;
} saved;

static saved saved_change(unsigned kind, unsigned detail, uint16_t packet_id) {
    saved change;
    memset(&change, 0, sizeof change);
    change.head[0] = (uint8_t)kind;
    change.head[1] = (uint8_t)detail;
    store_u16(change.head + 2, packet_id);
    change.must_last = true;
    return change;
}

static saved saved_session(const tw_client *c) {
    saved change = saved_change(SAVED_SESSION, 0, 0);
    change.body = c->config.connect.client_id;
    return change;
}

/* PUBLISH has the same layout in 3.1 and 3.1.1. */
static uint8_t layout_of(const tw_client *c) {
    return c->config.connect.version == TW_V5 ? (uint8_t)TW_V5 : (uint8_t)TW_V3_1_1;
}

static saved saved_message(const tw_client *c, const tw_record *record, const uint8_t *packet) {
    bool is_marked = record->state == QUEUED && record->detail != 0;
    saved change = saved_change(SAVED_MESSAGE, is_marked ? 0 : record->detail, record->packet_id);
    change.head[4] = is_marked ? (uint8_t)SENT : record->state;
    change.head[5] = layout_of(c);
    change.body = tw_view(packet, record->len);
    return change;
}

static tw_result append_to_store(const tw_client *c, const saved *change) {
    const tw_store *store = c->config.store;
    return store->append(store->context, change->head, change->body, change->must_last);
}

static bool is_message(const tw_client *c, size_t at) {
    return *packet_at(c, at) >> 4 == TW_PUBLISH && state_at(c, at) != DONE;
}

/* Replaces the content of the store with all live records. */
static tw_result rewrite_store(tw_client *c) {
    const tw_store *store = c->config.store;
    tw_result result = store->begin(store->context);
    saved change = saved_session(c);
    size_t at = c->head;
    uint16_t i;
    if (result >= 0 && c->has_session) {
        result = append_to_store(c, &change);
    }
    for (i = 0; result >= 0 && i < c->incoming_used; i++) {
        change = saved_change(SAVED_ACCEPTED, 0, c->config.incoming[i]);
        /* The application is still handling the message: if power fails now, it is delivered again. */
        if (c->ack_type != TW_PUBREC || c->ack_packet_id != c->config.incoming[i]) {
            result = append_to_store(c, &change);
        }
    }
    for (i = 0; result >= 0 && i < c->records; i++) {
        if (is_message(c, at)) {
            tw_record record = record_at(c, at);
            change = saved_message(c, &record, packet_at(c, at));
            result = append_to_store(c, &change);
        }
        at = next_record(c, at);
    }
    return result < 0 ? result : store->commit(store->context);
}

/*
 * Appends. After a failed append the store is incomplete, and nothing may follow: all live records are rewritten first, and then it
 * is tried once more.
 */
static tw_result save(tw_client *c, const saved *change) {
    unsigned attempts;
    for (attempts = 0; attempts < 2; attempts++) {
        if (c->is_store_behind && rewrite_store(c) < 0) {
            break;
        }
        c->is_store_behind = append_to_store(c, change) < 0;
        if (!c->is_store_behind) {
            return 0;
        }
    }
    c->counters.store_failed++;
    return TW_STORE_FAILED;
}

/* Saves a change on which the next packet depends. If that fails, the connection ends, and the next one tries again. */
static bool save_change(tw_client *c, unsigned kind, unsigned detail, uint16_t packet_id) {
    saved change = saved_change(kind, detail, packet_id);
    if (c->config.store != NULL && save(c, &change) < 0) {
        c->has_store_failed = true;
    }
    return !c->has_store_failed;
}

static bool keep_released(tw_client *c, uint16_t packet_id, tw_reason reason) {
    return save_change(c, SAVED_RELEASED, (unsigned)reason, packet_id);
}

static bool keep_accepted(tw_client *c, uint16_t packet_id) {
    return save_change(c, SAVED_ACCEPTED, 0, packet_id);
}

static bool keep_completed(tw_client *c, uint16_t packet_id) {
    return save_change(c, SAVED_COMPLETED, 0, packet_id);
}

static size_t stored_bytes(const tw_client *c, uint32_t len) {
    return c->config.store->record_bytes + len;
}

/* The message is in the outbox at `at`, after the live records. `record` gets whether the store has it as sent. */
static tw_result keep_message(tw_client *c, tw_record *record, size_t at) {
    const uint8_t *packet = packet_at(c, at);
    saved change;
    if (c->config.store == NULL || *packet >> 4 != TW_PUBLISH) {
        return 0;
    }
    if (stored_bytes(c, record->len) > c->config.store->capacity_bytes) {
        return TW_BUFFER_TOO_SMALL;
    }
    if (stored_bytes(c, record->len) > c->config.store->capacity_bytes - c->kept_bytes) {
        c->counters.outbox_full++;
        return TW_OUTBOX_FULL;
    }
    /* It is most likely sent at once: one record covers both. */
    record->detail = c->state == CONNECTED && c->unsent == 0;
    change = saved_message(c, record, packet);
    if (save(c, &change) < 0) {
        return TW_STORE_FAILED;
    }
    c->kept_bytes += stored_bytes(c, record->len);
    return 0;
}

/* The message is complete, in the outbox, too. */
static void keep_finished(tw_client *c, const tw_record *record) {
    saved change = saved_change(SAVED_FINISHED, 0, record->packet_id);
    change.must_last = false;
    if (c->config.store != NULL) {
        c->kept_bytes -= stored_bytes(c, record->len);
        (void)save(c, &change);
    }
}

/* Ensures that the store has the queued message at `from` as sent, and some of those after it. */
static bool keep_sent(tw_client *c, size_t from) {
    uint16_t marked = 0, left = c->unsent, last = 0;
    size_t at = from;
    if (c->config.store == NULL || record_at(c, from).detail != 0) {
        return true;
    }
    for (; left > 0 && marked < SENT_AT_ONCE && marked < c->max_in_flight - c->in_flight; left--) {
        tw_record record = record_at(c, at);
        if (is_message(c, at) && record.state == QUEUED) {
            last = record.packet_id;
            marked++;
        }
        at = next_record(c, at);
    }
    if (!save_change(c, SAVED_SENT_UP_TO, 0, last)) {
        return false;
    }
    for (at = from; marked > 0; at = next_record(c, at)) {
        if (is_message(c, at) && state_at(c, at) == QUEUED) {
            set_detail(c, at, 1);
            marked--;
        }
    }
    return true;
}

/*
 * The server has a new session, or one that the store has not recorded. Called before the outbox drops its exchanges, as restoring
 * this record does, too.
 */
static void keep_session(tw_client *c, bool session_present) {
    bool is_known = c->has_session && (session_present || (c->kept_bytes == 0 && c->incoming_used == 0));
    saved change = saved_session(c);
    if (c->config.store == NULL) {
        return;
    }
    if (!is_known) {
        c->has_store_failed = save(c, &change) < 0;
    } else if (c->is_store_behind) {
        /* The missing record may be the loss of the previous session. */
        c->is_store_behind = rewrite_store(c) < 0;
        c->has_store_failed = c->is_store_behind;
    }
}

/* After the outbox has dropped its exchanges: messages that were marked as sent but not sent are queued as before. */
static void keep_unsent(tw_client *c) {
    size_t at = c->head;
    uint16_t left;
    if (c->config.store == NULL) {
        return;
    }
    for (left = c->records; left > 0; left--) {
        tw_record record = record_at(c, at);
        if (is_message(c, at) && record.state == QUEUED && record.detail != 0) {
            set_detail(c, at, 0);
            if ((*packet_at(c, at) & 0x04) != 0) {
                (void)save_change(c, SAVED_UNSENT, 0, record.packet_id);
            }
        }
        at = next_record(c, at);
    }
}

/* Restoring. Nothing is at the end of the outbox yet: its records are contiguous. */

/* Moves live records together to the front. */
static void compact_outbox(tw_client *c) {
    size_t at = c->head, to = 0;
    uint16_t left, kept = 0;
    for (left = c->records; left > 0; left--) {
        tw_record record = record_at(c, at);
        size_t bytes = RECORD_BYTES + record.len, next = at + bytes;
        if (record.state != DONE) {
            memmove(c->config.outbox.data + to, c->config.outbox.data + at, bytes);
            to += bytes;
            kept++;
        }
        at = next;
    }
    c->head = 0;
    c->tail = to;
    c->records = kept;
}

static size_t find_message(const tw_client *c, uint16_t packet_id) {
    size_t at = c->head;
    uint16_t left;
    for (left = c->records; left > 0; left--) {
        tw_record record = record_at(c, at);
        if (record.packet_id == packet_id && record.state != DONE) {
            return at;
        }
        at = next_record(c, at);
    }
    return NOWHERE;
}

static tw_result restore_message(tw_client *c, const uint8_t *head, tw_bytes body) {
    tw_packet packet;
    tw_record record;
    record.len = (uint32_t)body.len;
    record.packet_id = load_u16(head + 2);
    record.state = head[4];
    record.detail = head[1];
    if (head[5] != layout_of(c) && (head[5] == TW_V3_1_1 || head[5] == TW_V5)) {
        return TW_NOT_IN_VERSION;
    }
    if (record.state > SETTLED || find_message(c, record.packet_id) != NOWHERE ||
        tw_decode(body.data, body.len, c->config.connect.version, TW_MAX_PACKET_BYTES, &packet) != (tw_result)body.len ||
        packet.type != TW_PUBLISH || packet.as.publish.qos == TW_AT_MOST_ONCE ||
        packet.as.publish.packet_id != record.packet_id) {
        return TW_STORE_FAILED;
    }
    if (c->config.outbox.size - c->tail < RECORD_BYTES + body.len) {
        compact_outbox(c);
        if (c->config.outbox.size - c->tail < RECORD_BYTES + body.len || c->records == 0xFFFF) {
            return TW_BUFFER_TOO_SMALL;
        }
    }
    memcpy(c->config.outbox.data + c->tail, &record, sizeof record);
    c->tail = append(c->config.outbox.data, c->tail + RECORD_BYTES, body);
    c->records++;
    c->settled = (uint16_t)(c->settled + (record.state == SETTLED));
    c->kept_bytes += stored_bytes(c, record.len);
    c->next_packet_id = record.packet_id;
    (void)take_packet_id(c);
    return 0;
}

static tw_result restore_state(tw_client *c, const uint8_t *head) {
    size_t at = find_message(c, load_u16(head + 2)), each;
    tw_record record;
    if (at == NOWHERE) {
        /* A store that was rewritten while a message was completed does not contain it. */
        return head[0] == SAVED_FINISHED ? 0 : TW_STORE_FAILED;
    }
    record = record_at(c, at);
    switch (head[0]) {
    case SAVED_SENT_UP_TO:
        for (each = c->head;; each = next_record(c, each)) {
            if (state_at(c, each) == QUEUED) {
                set_state(c, each, SENT);
            }
            if (each == at) {
                return 0;
            }
        }
    case SAVED_UNSENT:
        /* The outbox had dropped the exchange, and reported it as lost. */
        c->settled = (uint16_t)(c->settled - (record.state == SETTLED));
        set_state(c, at, QUEUED);
        set_detail(c, at, 0);
        return 0;
    case SAVED_RELEASED:
        if (record.state == SETTLED || (*packet_at(c, at) & 0x04) == 0) {
            return TW_STORE_FAILED;
        }
        set_state(c, at, RELEASED);
        set_detail(c, at, head[1]);
        return 0;
    default:
        c->settled = (uint16_t)(c->settled - (record.state == SETTLED));
        c->kept_bytes -= stored_bytes(c, record.len);
        set_state(c, at, DONE);
        return 0;
    }
}

static tw_result restore_incoming(tw_client *c, const uint8_t *head) {
    uint16_t packet_id = load_u16(head + 2);
    size_t i = find_incoming(c, packet_id);
    if (head[0] == SAVED_COMPLETED) {
        forget_incoming(c, i);
    } else if (i == c->incoming_used) {
        if (i == c->config.incoming_count) {
            return TW_BUFFER_TOO_SMALL;
        }
        c->config.incoming[c->incoming_used++] = packet_id;
    }
    return 0;
}

static tw_result restore(tw_client *c, const uint8_t *head, tw_bytes body) {
    switch (head[0]) {
    case SAVED_MESSAGE: return restore_message(c, head, body);
    case SAVED_SENT_UP_TO:
    case SAVED_UNSENT:
    case SAVED_RELEASED:
    case SAVED_FINISHED: return restore_state(c, head);
    case SAVED_ACCEPTED:
    case SAVED_COMPLETED: return restore_incoming(c, head);
    case SAVED_SESSION:
        c->has_session = same_bytes(body, c->config.connect.client_id);
        c->incoming_used = 0;
        forget_exchanges(c);
        return 0;
    default: return TW_STORE_FAILED;
    }
}

/* Restores the state of an earlier process. Nothing has been received or is pending, so packets are read into the transmit buffer. */
static tw_result load_store(tw_client *c) {
    const tw_store *store = c->config.store;
    uint8_t head[TW_STORE_HEAD_BYTES];
    tw_result result = 0;
    if (store == NULL) {
        return 0;
    }
    /* Identifiers of incoming messages take room, too: at most half of the rest. */
    if (store->capacity_bytes / 2 / (store->record_bytes + 1) < c->config.incoming_count) {
        return TW_ARGUMENT;
    }
    while (result >= 0) {
        result = store->read(store->context, head, c->config.transmit);
        if (result >= 0) {
            result = restore(c, head, tw_view(c->config.transmit.data, (size_t)result));
        }
    }
    if (result != TW_INCOMPLETE) {
        return result == TW_BUFFER_TOO_SMALL || result == TW_NOT_IN_VERSION ? result : (tw_result)TW_STORE_FAILED;
    }
    if (!c->has_session) {
        /* The session belonged to another client identifier, or there was none. */
        c->incoming_used = 0;
        forget_exchanges(c);
    }
    rewind_outbox(c);
    return 0;
}
#else
static tw_result keep_message(tw_client *c, tw_record *record, size_t at) {
    (void)c, (void)record, (void)at;
    return 0;
}
static void keep_finished(tw_client *c, const tw_record *record) {
    (void)c, (void)record;
}
static bool keep_sent(tw_client *c, size_t from) {
    (void)c, (void)from;
    return true;
}
static bool keep_released(tw_client *c, uint16_t packet_id, tw_reason reason) {
    (void)c, (void)packet_id, (void)reason;
    return true;
}
static bool keep_accepted(tw_client *c, uint16_t packet_id) {
    (void)c, (void)packet_id;
    return true;
}
static bool keep_completed(tw_client *c, uint16_t packet_id) {
    (void)c, (void)packet_id;
    return true;
}
static void keep_session(tw_client *c, bool session_present) {
    (void)c, (void)session_present;
}
static void keep_unsent(tw_client *c) {
    (void)c;
}
static tw_result load_store(tw_client *c) {
    (void)c;
    return 0;
}
#endif
