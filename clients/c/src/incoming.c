/* Packets from the server, and their consequences. There is room for answers: tw_client_next() has ensured that. */

static size_t find_incoming(const tw_client *c, uint16_t packet_id) {
    size_t i = 0;
    while (i < c->incoming_used && c->config.incoming[i] != packet_id) {
        i++;
    }
    return i;
}

static void forget_incoming(tw_client *c, size_t i) {
    if (i < c->incoming_used) {
        c->incoming_used--;
        c->config.incoming[i] = c->config.incoming[c->incoming_used];
    }
}

/* The application has handled the message. False if that cannot be stored, and the acknowledgement must not be sent. */
static bool settle_incoming(tw_client *c) {
    bool is_pubrec = c->ack_type == TW_PUBREC;
    c->ack_type = 0;
    if (is_pubrec && c->ack_reason >= TW_UNSPECIFIED_ERROR) {
        /* The exchange ends here [MQTT-4.3.3-9]. */
        forget_incoming(c, find_incoming(c, c->ack_packet_id));
        return true;
    }
    return !is_pubrec || keep_accepted(c, c->ack_packet_id);
}

/* Acknowledges the message that the application has handled. */
static void flush_ack(tw_client *c) {
    tw_packet_type type = (tw_packet_type)c->ack_type;
    if (type != 0 && transmit_room(c, ANSWER_BYTES) != NULL && settle_incoming(c)) {
        (void)put_short(c, type, c->ack_packet_id, (tw_reason)c->ack_reason);
    }
}

/* Ends the connection because of a fault of the server, or a timeout. Always true: this is an event. */
static TW_COLD bool close_with(tw_client *c, tw_result error, tw_event *event) {
    event->type = TW_EVENT_CLOSED;
    event->error = error;
    event->reason = tw_reason_for(error);
    if (c->state == CONNECTED && error != TW_PING_TIMEOUT && c->config.connect.version == TW_V5) {
        (void)put_short(c, TW_DISCONNECT, 0, event->reason);
    }
    c->state = CLOSING;
    return true;
}

/*
 * The reasons after which another attempt ends in the same way, a bit for each from 0x80 to 0x9F. CONNACK: version, client
 * identifier, user name or password, rights, a ban, the authentication method, a will that the server does not accept (0x90,
 * 0x95, 0x99, 0x9A, 0x9B), another server. DISCONNECT: rights, a session taken over, another server.
 */
#define FINAL_IN_CONNACK 0x3E2114F0u
#define FINAL_IN_DISCONNECT 0x30004080u

/* The server has ended the connection. */
static bool closed_by_server(tw_client *c, tw_reason reason, tw_properties properties, tw_event *event) {
    bool is_refusal = c->state == CONNECTING;
    uint32_t final = is_refusal ? FINAL_IN_CONNACK : FINAL_IN_DISCONNECT;
    event->type = TW_EVENT_CLOSED;
    event->error = is_refusal ? TW_CONNECTION_REFUSED : TW_SERVER_DISCONNECTED;
    if (reason == TW_USE_ANOTHER_SERVER || reason == TW_SERVER_MOVED) {
        event->error = TW_REDIRECTED;
    } else if (reason == TW_UNSUPPORTED_PROTOCOL_VERSION && is_refusal) {
        event->error = TW_UNSUPPORTED_VERSION;
    } else if (reason == TW_SESSION_TAKEN_OVER) {
        event->error = TW_TAKEN_OVER;
    }
    /* No bit is set for a reason that would map to it from below 0x80 or above 0x9F. */
    event->is_final = (final >> ((unsigned)reason & 0x1F) & 1) != 0;
    event->reason = reason;
    event->properties = properties;
    c->state = CLOSING;
    return true;
}

static void take_limits(tw_client *c, tw_properties properties) {
    tw_property property;
    c->keep_alive_s = c->config.connect.keep_alive_s;
    c->max_in_flight = c->config.max_in_flight;
    c->server_max_packet_bytes = TW_MAX_PACKET_BYTES;
    c->server_max_qos = 2;
    c->server_retains = true;
    while (tw_next_property(&properties, &property)) {
        switch (property.id) {
        case TW_RECEIVE_MAXIMUM:
            if (property.number < c->max_in_flight) {
                c->max_in_flight = (uint16_t)property.number;
            }
            break;
        case TW_MAXIMUM_QOS: c->server_max_qos = (uint8_t)property.number; break;
        case TW_RETAIN_AVAILABLE: c->server_retains = property.number != 0; break;
        case TW_MAXIMUM_PACKET_SIZE: c->server_max_packet_bytes = property.number; break;
        /* [MQTT-3.1.2-21] */
        case TW_SERVER_KEEP_ALIVE: c->keep_alive_s = (uint16_t)property.number; break;
        default: break;
        }
    }
}

static bool handle_connack(tw_client *c, const tw_connack *connack, tw_event *event) {
    if (c->state != CONNECTING) {
        return close_with(c, TW_UNEXPECTED_PACKET, event);
    }
    if (connack->reason != TW_SUCCESS) {
        return closed_by_server(c, connack->reason, connack->properties, event);
    }
    if (connack->session_present && c->asked_clean) {
        return close_with(c, TW_UNEXPECTED_SESSION, event);
    }
    if (c->config.authenticator != NULL) {
        tw_result result = finish_authentication(c->config.authenticator, connack->properties);
        if (result < 0) {
            return close_with(c, result, event);
        }
    }
    take_limits(c, connack->properties);
    keep_session(c, connack->session_present);
    if (!connack->session_present) {
        c->incoming_used = 0;
        forget_exchanges(c);
        keep_unsent(c);
    }
    c->in_flight = 0;
#if TW_SUBSCRIPTIONS
    demand_subscriptions(c, connack->session_present);
#endif
    c->state = CONNECTED;
    c->has_session = true;
    if (has_store_failed(c)) {
        return false;
    }
    event->type = TW_EVENT_CONNECTED;
    event->session_present = connack->session_present;
    event->properties = connack->properties;
    return true;
}

static bool handle_publish(tw_client *c, const tw_publish *publish, tw_event *event) {
    if (publish->has_alias) {
        return close_with(c, TW_UNEXPECTED_TOPIC_ALIAS, event);
    }
    if (publish->qos == TW_EXACTLY_ONCE) {
        if (find_incoming(c, publish->packet_id) < c->incoming_used) {
            /* It has been delivered [MQTT-4.3.3-10]. The connection may have ended before the store recorded it. */
            if (!keep_accepted(c, publish->packet_id)) {
                return false;
            }
            (void)put_short(c, TW_PUBREC, publish->packet_id, TW_SUCCESS);
            return false;
        }
        if (c->incoming_used == c->config.incoming_count) {
            c->counters.incoming_full++;
            return close_with(c, TW_TOO_MANY_INCOMING, event);
        }
        c->config.incoming[c->incoming_used++] = publish->packet_id;
    }
    if (publish->qos != TW_AT_MOST_ONCE) {
        c->ack_type = publish->qos == TW_AT_LEAST_ONCE ? TW_PUBACK : TW_PUBREC;
        c->ack_packet_id = publish->packet_id;
        c->ack_reason = TW_SUCCESS;
    }
    event->type = TW_EVENT_MESSAGE;
    event->packet_id = publish->packet_id;
    event->message = *publish;
    event->properties = publish->properties;
    return true;
}

/* An exchange has ended with `reason`, which is a refusal from 0x80 on. */
static void tell_outcome(tw_event *event, tw_event_type type, uint16_t packet_id, unsigned reason, tw_result refusal) {
    event->type = type;
    event->packet_id = packet_id;
    event->reason = (tw_reason)reason;
    event->error = reason >= TW_UNSPECIFIED_ERROR ? refusal : 0;
}

static bool is_qos_2(const tw_client *c, size_t at) {
    return (*packet_at(c, at) & 0x04) != 0;
}

static bool handle_puback(tw_client *c, tw_packet_type type, const tw_ack *ack, tw_event *event) {
    size_t at = find_record(c, TW_PUBLISH, ack->packet_id);
    unsigned reason = (unsigned)ack->reason;
    bool is_known = at != NOWHERE && is_qos_2(c, at) == (type != TW_PUBACK);
    unsigned state = is_known ? state_at(c, at) : (unsigned)DONE;
    if (type == TW_PUBREC && (!is_known || ack->reason < TW_UNSPECIFIED_ERROR)) {
        if (state == SENT) {
            if (!keep_released(c, ack->packet_id, ack->reason)) {
                return false;
            }
            set_state(c, at, RELEASED);
            set_detail(c, at, reason);
        }
        /* [MQTT-4.3.3-4]; after a lost session there may be nothing to release. */
        (void)put_short(c, TW_PUBREL, ack->packet_id, is_known ? TW_SUCCESS : TW_PACKET_IDENTIFIER_NOT_FOUND);
        return false;
    }
    if (state != (unsigned)(type == TW_PUBCOMP ? RELEASED : SENT)) {
        c->counters.acks_unexpected++;
        return false;
    }
    if (type == TW_PUBCOMP) {
        /*
         * PUBREC says that there are no subscribers (section 3.5.2.1). If the server no longer knows the identifier, it received
         * an earlier PUBREL, and its PUBCOMP was lost.
         */
        reason = record_at(c, at).detail;
    }
    finish_record(c, at);
    if (c->in_flight > 0) {
        c->in_flight--;
    }
    tell_outcome(event, TW_EVENT_PUBLISHED, ack->packet_id, reason, TW_PUBLISH_REFUSED);
    event->properties = ack->properties;
    return true;
}

static bool handle_pubrel(tw_client *c, uint16_t packet_id) {
    size_t i = find_incoming(c, packet_id);
    bool is_known = i < c->incoming_used;
    if (is_known && !keep_completed(c, packet_id)) {
        return false;
    }
    forget_incoming(c, i);
    /* [MQTT-4.3.3-11] */
    (void)put_short(c, TW_PUBCOMP, packet_id, is_known ? TW_SUCCESS : TW_PACKET_IDENTIFIER_NOT_FOUND);
    return false;
}

static bool handle_suback(tw_client *c, tw_packet_type type, const tw_suback *suback, tw_event *event) {
    bool is_suback = type == TW_SUBACK;
    size_t at = find_record(c, is_suback ? TW_SUBSCRIBE : TW_UNSUBSCRIBE, suback->packet_id), i;
    unsigned highest = TW_SUCCESS;
    for (i = 0; i < suback->reasons.len; i++) {
        highest = suback->reasons.data[i] > highest ? suback->reasons.data[i] : highest;
    }
#if TW_SUBSCRIPTIONS
    if (at == NOWHERE && is_suback && take_repeated(c, suback->packet_id, highest >= TW_UNSPECIFIED_ERROR, &event->filter)) {
        if (event->filter.len == 0) {
            /* The application did not send this request, so there is no event. */
            return false;
        }
    } else if (at != NOWHERE && is_suback) {
        settle_subscriptions(c, at, suback->reasons);
    }
#endif
    if (at != NOWHERE) {
        set_state(c, at, DONE);
    } else if (event->filter.len == 0) {
        c->counters.acks_unexpected++;
        return false;
    }
    tell_outcome(event, is_suback ? TW_EVENT_SUBSCRIBED : TW_EVENT_UNSUBSCRIBED, suback->packet_id, highest,
                 is_suback ? TW_SUBSCRIBE_REFUSED : TW_UNSUBSCRIBE_REFUSED);
    event->reasons = suback->reasons;
    event->properties = suback->properties;
    return true;
}

static bool handle_packet(tw_client *c, const tw_packet *packet, tw_event *event) {
    const tw_notice *notice = &packet->as.notice;
    if (c->state == CONNECTING && packet->type != TW_CONNACK && packet->type != TW_AUTH) {
        return close_with(c, TW_UNEXPECTED_PACKET, event);
    }
    switch (packet->type) {
    case TW_CONNACK: return handle_connack(c, &packet->as.connack, event);
    case TW_PUBLISH: return handle_publish(c, &packet->as.publish, event);
    case TW_PUBACK:
    case TW_PUBREC:
    case TW_PUBCOMP: return handle_puback(c, packet->type, &packet->as.ack, event);
    case TW_PUBREL: return handle_pubrel(c, packet->as.ack.packet_id);
    case TW_SUBACK:
    case TW_UNSUBACK: return handle_suback(c, packet->type, &packet->as.suback, event);
    case TW_PINGRESP: c->is_waiting_for_pong = false; return false;
    case TW_AUTH: return handle_auth(c, notice, event);
    case TW_DISCONNECT:
        if (c->config.connect.version == TW_V5) {
            return closed_by_server(c, notice->reason, notice->properties, event);
        }
        return close_with(c, TW_UNEXPECTED_PACKET, event);
    default: return close_with(c, TW_UNEXPECTED_PACKET, event);
    }
}
