#if TW_SUBSCRIPTIONS
/*
 * Subscriptions are stored contiguously in the caller's memory: state, packet identifier, properties with their length, then filter and
 * options as in SUBSCRIBE.
 */

typedef enum subscription_state {
    /* Its SUBSCRIBE is in the outbox, which sends it again. */
    ASKED,
    GRANTED,
    /* The server has lost it: it must be renewed. */
    DUE,
    /* The renewal is sent but not answered yet. */
    ASKED_AGAIN,
    /* The server has refused the renewal. An event may refer to its filter until the next packet is handled. */
    REFUSED
} subscription_state;

#define KEPT_HEAD_BYTES 5u
/* The head, the length of the filter and its options. */
#define KEPT_BYTES (KEPT_HEAD_BYTES + 3u)

static tw_properties kept_properties(const uint8_t *kept) {
    return tw_view(kept + KEPT_HEAD_BYTES, load_u16(kept + 3));
}

static tw_bytes kept_filter(const uint8_t *kept) {
    const uint8_t *wire = kept + KEPT_HEAD_BYTES + load_u16(kept + 3);
    return tw_view(wire + 2, load_u16(wire));
}

static uint8_t *next_kept(uint8_t *kept) {
    return kept + KEPT_BYTES + load_u16(kept + 3) + kept_filter(kept).len;
}

static uint8_t *kept_end(const tw_client *c) {
    uint8_t *data = c->config.subscriptions.data;
    return c->subscriptions_len == 0 ? data : data + c->subscriptions_len;
}

static uint8_t *find_kept(const tw_client *c, tw_bytes filter) {
    uint8_t *kept = c->config.subscriptions.data;
    for (; kept < kept_end(c); kept = next_kept(kept)) {
        if (same_bytes(kept_filter(kept), filter)) {
            return kept;
        }
    }
    return NULL;
}

static void forget_kept(tw_client *c, uint8_t *kept) {
    if (kept != NULL) {
        uint8_t *next = next_kept(kept);
        size_t behind = (size_t)(kept_end(c) - next);
        c->subscriptions_len -= (size_t)(next - kept);
        memmove(kept, next, behind);
    }
}

static void set_kept(uint8_t *kept, subscription_state state, uint16_t packet_id) {
    kept[0] = (uint8_t)state;
    store_u16(kept + 1, packet_id);
}

static void forget_subscriptions(tw_client *c, const tw_subscription *list, size_t count) {
    size_t i;
    for (i = 0; i < count; i++) {
        forget_kept(c, find_kept(c, list[i].filter));
    }
}

/* Whether there is room for the subscriptions besides those that remain. */
static tw_result check_room_to_keep(tw_client *c, const tw_subscription *list, size_t count, tw_properties properties) {
    size_t room = c->config.subscriptions.size - c->subscriptions_len;
    size_t i;
    if (c->config.subscriptions.size == 0) {
        return 0;
    }
    for (i = 0; i < count; i++) {
        size_t needed = KEPT_BYTES + list[i].filter.len + properties.len;
        uint8_t *old = find_kept(c, list[i].filter);
        if (old != NULL) {
            room += (size_t)(next_kept(old) - old);
        }
        if (needed > room || properties.len > TW_MAX_FIELD_BYTES) {
            c->counters.subscriptions_full++;
            return TW_SUBSCRIPTIONS_FULL;
        }
        room -= needed;
    }
    return 0;
}

/* Stores subscriptions whose SUBSCRIBE is in the outbox. Older ones to the same filters have been removed. */
static void keep_subscriptions(tw_client *c, const tw_subscription *list, size_t count, tw_properties properties,
                               uint16_t packet_id) {
    size_t i;
    for (i = 0; i < count; i++) {
        const tw_subscription *s = &list[i];
        size_t needed = KEPT_BYTES + properties.len + s->filter.len;
        uint8_t *kept;
        /* The second of two equal filters replaces the first. */
        forget_kept(c, find_kept(c, s->filter));
        kept = kept_end(c);
        if (needed > c->config.subscriptions.size - c->subscriptions_len) {
            /* There is no memory for subscriptions, or a duplicate filter has made room only once. */
            if (c->config.subscriptions.size > 0) {
                c->counters.subscriptions_full++;
            }
            continue;
        }
        set_kept(kept, ASKED, packet_id);
        store_u16(kept + 3, (unsigned)properties.len);
        kept += append(kept, KEPT_HEAD_BYTES, properties);
        store_u16(kept, (unsigned)s->filter.len);
        kept += append(kept, 2, s->filter);
        *kept = options_of(s);
        c->subscriptions_len += needed;
    }
}

/* The SUBSCRIBE at `at` in the outbox has been answered; without reasons, it cannot be sent. */
static void settle_subscriptions(tw_client *c, size_t at, tw_bytes reasons) {
    tw_record record = record_at(c, at);
    tw_packet packet;
    tw_subscription s;
    size_t i;
    if (c->subscriptions_len == 0 ||
        tw_decode(packet_at(c, at), record.len, c->config.connect.version, TW_MAX_PACKET_BYTES, &packet) < 0) {
        return;
    }
    for (i = 0; tw_next_subscription(&packet.as.subscribe.wire, true, &s); i++) {
        uint8_t *kept = find_kept(c, s.filter);
        /* A later SUBSCRIBE may have taken it over. */
        if (kept == NULL || kept[0] != ASKED || load_u16(kept + 1) != record.packet_id) {
            continue;
        }
        if (i < reasons.len && reasons.data[i] < TW_UNSPECIFIED_ERROR) {
            set_kept(kept, GRANTED, 0);
        } else {
            forget_kept(c, kept);
        }
    }
}

/* A new connection: unanswered renewals are due again, and all granted subscriptions if the session is lost. */
static void demand_subscriptions(tw_client *c, bool session_present) {
    uint8_t *kept = c->config.subscriptions.data;
    while (kept < kept_end(c)) {
        if (kept[0] == REFUSED) {
            forget_kept(c, kept);
            continue;
        }
        if (kept[0] == ASKED_AGAIN || (kept[0] == GRANTED && !session_present)) {
            kept[0] = DUE;
        }
        c->owes_subscriptions = c->owes_subscriptions || kept[0] == DUE;
        kept = next_kept(kept);
    }
}

/*
 * Renews due subscriptions before anything is sent that may depend on them, such as a request whose response the server could not deliver
 * otherwise. False if there is no room to continue.
 */
static bool pump_subscriptions(tw_client *c) {
    uint8_t *kept = c->config.subscriptions.data;
    if (!c->owes_subscriptions) {
        return true;
    }
    for (; kept < kept_end(c); kept = next_kept(kept)) {
        tw_packet packet;
        tw_bytes filter = kept_filter(kept);
        tw_result result;
        if (kept[0] != DUE) {
            continue;
        }
        packet.type = TW_SUBSCRIBE;
        packet.as.subscribe.packet_id = c->next_packet_id;
        packet.as.subscribe.properties = kept_properties(kept);
        packet.as.subscribe.list = NULL;
        packet.as.subscribe.count = 1;
        packet.as.subscribe.wire = tw_view(filter.data - 2, filter.len + 3);
        result = transmit_packet(c, &packet, 0);
        if (result == TW_OUTPUT_FULL) {
            return false;
        }
        if (result < 0) {
            /* Larger than this server accepts: the next connection may have a higher limit. */
            set_kept(kept, GRANTED, 0);
        } else {
            set_kept(kept, ASKED_AGAIN, take_packet_id(c));
        }
    }
    c->owes_subscriptions = false;
    return true;
}

/* Whether the identifier is that of a renewal, which is answered now. Sets the filter if it was refused. */
static bool take_repeated(tw_client *c, uint16_t packet_id, bool is_refused, tw_bytes *filter) {
    uint8_t *kept = c->config.subscriptions.data;
    for (; kept < kept_end(c); kept = next_kept(kept)) {
        if (kept[0] == ASKED_AGAIN && load_u16(kept + 1) == packet_id) {
            kept[0] = GRANTED;
            if (is_refused) {
                kept[0] = REFUSED;
                *filter = kept_filter(kept);
            }
            return true;
        }
    }
    return false;
}
#endif
