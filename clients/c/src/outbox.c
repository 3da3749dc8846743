/*
 * The outbox is a ring of records in the order of their packet identifiers. A record is never split: if it does not fit
 * before the end of the memory it starts at the beginning, and `limit` is the end of the upper part. Records are
 * completed in any order; their memory is free again when all earlier ones are complete.
 */

typedef enum record_state {
    /* Not sent yet, or to be sent like a new one. */
    QUEUED,
    SENT,
    /* QoS 2: the server has the message, PUBREL follows [MQTT-4.3.3-4]. */
    RELEASED,
    /* Its result is known and must be reported to the application. */
    SETTLED,
    DONE
} record_state;

#define RECORD_BYTES (sizeof(tw_record))
#define NOWHERE ((size_t)-1)

/* The memory need not be aligned. */
static tw_record record_at(const tw_client *c, size_t at) {
    tw_record record;
    memcpy(&record, c->config.outbox.data + at, sizeof record);
    return record;
}

/* A single byte: cheaper than the whole record. */
static unsigned state_at(const tw_client *c, size_t at) {
    return c->config.outbox.data[at + offsetof(tw_record, state)];
}

static uint8_t *packet_at(const tw_client *c, size_t at) {
    return c->config.outbox.data + at + RECORD_BYTES;
}

static size_t next_record(const tw_client *c, size_t at) {
    at += RECORD_BYTES + record_at(c, at).len;
    return at == c->limit ? 0 : at;
}

/* There are no records: the next one starts at the beginning, and becomes the cursor. */
static void empty_outbox(tw_client *c) {
    c->head = 0;
    c->tail = 0;
    c->limit = NOWHERE;
}

static tw_result encode_record(tw_client *c, const tw_packet *packet, size_t at, size_t room) {
    return room <= RECORD_BYTES ? TW_BUFFER_TOO_SMALL
                                : encode_packet(c, packet, packet_at(c, at), room - RECORD_BYTES);
}

static TW_COLD tw_result no_room(tw_client *c, const tw_packet *packet) {
    size_t len = (size_t)tw_encoded_len(packet, c->config.connect.version);
    if (len + RECORD_BYTES > c->config.outbox.size || len > c->config.transmit.size) {
        return TW_BUFFER_TOO_SMALL;
    }
    c->counters.outbox_full++;
    return TW_OUTBOX_FULL;
}

static uint16_t take_packet_id(tw_client *c) {
    uint16_t packet_id = c->next_packet_id;
    c->next_packet_id = packet_id == 0xFFFF ? 1 : (uint16_t)(packet_id + 1);
    return packet_id;
}

/* Writes a packet, which has the next packet identifier, and queues it. */
static tw_result put_record(tw_client *c, const tw_packet *packet, uint16_t *packet_id) {
    size_t at = c->tail;
    bool is_wrapped = c->limit != NOWHERE;
    tw_record record;
    tw_result kept, len = encode_record(c, packet, at, (is_wrapped ? c->head : c->config.outbox.size) - at);
    if (len == TW_BUFFER_TOO_SMALL && !is_wrapped && c->records > 0) {
        at = 0;
        len = encode_record(c, packet, at, c->head);
    }
    /* One identifier for each record, from a ring of 65,535: the oldest is not reused while it is in use
     * [MQTT-2.2.1-3]. */
    if (len == TW_BUFFER_TOO_SMALL ||
        (len > 0 && ((size_t)len > c->config.transmit.size ||
                     (c->records > 0 && record_at(c, c->head).packet_id == c->next_packet_id)))) {
        return no_room(c, packet);
    }
    if (len < 0) {
        return len;
    }
    record.len = (uint32_t)len;
    record.packet_id = c->next_packet_id;
    record.state = QUEUED;
    record.detail = 0;
    kept = keep_message(c, &record, at);
    if (kept < 0) {
        return kept;
    }
    (void)take_packet_id(c);
    if (at == 0 && c->records > 0) {
        c->limit = c->tail;
    }
    memcpy(c->config.outbox.data + at, &record, sizeof record);
    if (c->unsent == 0) {
        c->cursor = at;
    }
    c->tail = at + RECORD_BYTES + (size_t)len;
    c->records++;
    c->unsent++;
    if (packet_id != NULL) {
        *packet_id = record.packet_id;
    }
    return 0;
}

/* Returns the position of the record that waits for an acknowledgement; NOWHERE if there is none. */
static size_t find_record(const tw_client *c, tw_packet_type type, uint16_t packet_id) {
    size_t at = c->head;
    uint16_t left;
    for (left = c->records; left > 0; left--) {
        tw_record record = record_at(c, at);
        if (record.packet_id == packet_id) {
            bool waits = record.state == SENT || record.state == RELEASED;
            return waits && (unsigned)(*packet_at(c, at) >> 4) == (unsigned)type ? at : NOWHERE;
        }
        at = next_record(c, at);
    }
    return NOWHERE;
}

static void free_done_records(tw_client *c) {
    while (c->records > 0 && state_at(c, c->head) == DONE) {
        size_t next = next_record(c, c->head);
        if (c->unsent > 0 && c->cursor == c->head) {
            c->cursor = next;
            c->unsent--;
        }
        if (next == 0) {
            c->limit = NOWHERE;
        }
        c->head = next;
        c->records--;
    }
    if (c->records == 0) {
        empty_outbox(c);
    }
}

static void set_state(tw_client *c, size_t at, record_state state) {
    c->config.outbox.data[at + offsetof(tw_record, state)] = (uint8_t)state;
    if (state == DONE) {
        free_done_records(c);
    }
}

static void set_detail(tw_client *c, size_t at, unsigned detail) {
    c->config.outbox.data[at + offsetof(tw_record, detail)] = (uint8_t)detail;
}

static void finish_record(tw_client *c, size_t at) {
    tw_record record = record_at(c, at);
    bool is_message = *packet_at(c, at) >> 4 == TW_PUBLISH;
    set_state(c, at, DONE);
    if (is_message) {
        keep_finished(c, &record);
    }
}

/* The application gets the result later, because there is one event at a time. */
static void settle(tw_client *c, size_t at, tw_result error) {
    set_state(c, at, SETTLED);
    set_detail(c, at, (unsigned)-error);
    c->settled++;
}

static bool take_settled(tw_client *c, tw_event *event) {
    size_t at = c->head;
    uint16_t left;
    if (c->settled == 0) {
        return false;
    }
    for (left = c->records; left > 0; left--) {
        tw_record record = record_at(c, at);
        if (record.state == SETTLED) {
            unsigned type = *packet_at(c, at) >> 4;
            event->type = type == TW_SUBSCRIBE     ? TW_EVENT_SUBSCRIBED
                          : type == TW_UNSUBSCRIBE ? TW_EVENT_UNSUBSCRIBED
                                                   : TW_EVENT_PUBLISHED;
            event->packet_id = record.packet_id;
            event->error = -(tw_result)record.detail;
#if TW_SUBSCRIPTIONS
            if (type == TW_SUBSCRIBE) {
                settle_subscriptions(c, at, tw_view(NULL, 0));
            }
#endif
            c->settled--;
            finish_record(c, at);
            return true;
        }
        at = next_record(c, at);
    }
    return false;
}

/* All records are sent again, each according to its state. */
static void rewind_outbox(tw_client *c) {
    c->cursor = c->head;
    c->unsent = c->records;
    c->owes_releases = true;
}

/*
 * The server has no session: identifiers of the old one are void [MQTT-3.2.2-5]. QoS 1 messages are published again.
 * Whether the server has published a QoS 2 message is known only after its release.
 */
static void forget_exchanges(tw_client *c) {
    size_t at = c->head;
    uint16_t left;
    for (left = c->records; left > 0; left--) {
        tw_record record = record_at(c, at);
        unsigned first = *packet_at(c, at);
        bool is_qos_2 = first >> 4 == TW_PUBLISH && (first & 0x04) != 0;
        if (record.state == RELEASED || (record.state == SENT && is_qos_2)) {
            settle(c, at, record.state == RELEASED ? 0 : (tw_result)TW_SESSION_LOST);
        } else if (record.state == SENT) {
            set_state(c, at, QUEUED);
            set_detail(c, at, 0);
        }
        at = next_record(c, at);
    }
}

/* Returns why the server does not accept a packet with this first byte; 0 if it does. */
static tw_result server_refusal(const tw_client *c, unsigned first_byte, size_t len) {
    if (len > c->server_max_packet_bytes) {
        /* [MQTT-3.2.2-15] */
        return TW_OVER_MAXIMUM_PACKET_SIZE;
    }
    if (first_byte >> 4 == TW_PUBLISH && (first_byte >> 1 & 3) > c->server_max_qos) {
        /* [MQTT-3.2.2-11] */
        return TW_OVER_MAXIMUM_QOS;
    }
    /* [MQTT-3.2.2-14] */
    return first_byte >> 4 == TW_PUBLISH && (first_byte & 1) != 0 && !c->server_retains ? (tw_result)TW_RETAIN_UNAVAILABLE
                                                                                      : 0;
}

/*
 * Moves pending packets from the outbox to the transmit buffer, as far as there is room and the server allows it. On a new connection
 * the PUBREL packets are first: exchanges that wait for PUBCOMP are in flight [MQTT-3.3.4-7], and behind a PUBLISH that waits for
 * fewer of them they would wait forever.
 */
static void pump(tw_client *c) {
#if TW_SUBSCRIPTIONS
    if (c->state == CONNECTED && !pump_subscriptions(c)) {
        return;
    }
#endif
    while (c->state == CONNECTED && c->unsent > 0 && !has_store_failed(c)) {
        tw_record record = record_at(c, c->cursor);
        const uint8_t *packet = packet_at(c, c->cursor);
        bool is_publish = packet[0] >> 4 == TW_PUBLISH;
        if (c->owes_releases) {
            if (record.state == RELEASED) {
                if (!put_short(c, TW_PUBREL, record.packet_id, TW_SUCCESS)) {
                    return;
                }
                c->in_flight++;
            }
        } else if (record.state <= SENT) {
            tw_result refusal = server_refusal(c, packet[0], record.len);
            uint8_t *to;
            if (refusal < 0) {
                settle(c, c->cursor, refusal);
            } else {
                if (is_publish && c->in_flight >= c->max_in_flight) {
                    c->counters.in_flight_full++;
                    return;
                }
                to = transmit_room(c, record.len);
                if (to == NULL || (is_publish && record.state == QUEUED && !keep_sent(c, c->cursor))) {
                    return;
                }
                memcpy(to, packet, record.len);
                if (is_publish) {
                    c->in_flight++;
                    /* [MQTT-3.3.1-1] */
                    if (record.state == SENT) {
                        *to |= 0x08;
                    }
                }
                c->transmit_end += record.len;
                set_state(c, c->cursor, SENT);
            }
        }
        c->cursor = next_record(c, c->cursor);
        c->unsent--;
        if (c->unsent == 0 && c->owes_releases) {
            c->owes_releases = false;
            c->cursor = c->head;
            c->unsent = c->records;
        }
    }
}
