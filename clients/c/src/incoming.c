/* What the server sends, and what follows from it. Answers to packets have room: tw_client_next() has seen to it. */

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

/* Acknowledges the message that the application has had. */
static void flush_ack(tw_client *c) {
    tw_packet_type type = (tw_packet_type)c->ack_type;
    if (type == 0 || !put_short(c, type, c->ack_packet_id, (tw_reason)c->ack_reason)) {
        return;
    }
    if (type == TW_PUBREC && c->ack_reason >= TW_UNSPECIFIED_ERROR) {
        /* The exchange ends here [MQTT-4.3.3-9]. */
        forget_incoming(c, find_incoming(c, c->ack_packet_id));
    }
    c->ack_type = 0;
}

/* Ends the connection for a fault of the server, or a silence. Always true: this is an event. */
static TW_COLD bool close_with(tw_client *c, tw_result error, tw_event *event) {
    event->type = TW_EVENT_CLOSED;
    event->error = error;
    event->reason = tw_reason_for(error);
    if (c->state == CONNECTED && error != TW_TIMED_OUT && c->config.connect.version == TW_V5) {
        (void)put_short(c, TW_DISCONNECT, 0, event->reason);
    }
    c->state = CLOSING;
    return true;
}

/* The connection was ended by the server. */
static bool closed_by_server(tw_client *c, tw_reason reason, tw_properties properties, tw_event *event) {
    event->type = TW_EVENT_CLOSED;
    event->error = TW_REFUSED;
    event->reason = reason;
    event->properties = properties;
    c->state = CLOSING;
    return true;
}

static void take_limits(tw_client *c, tw_properties properties) {
    tw_property property;
    c->keep_alive_s = c->config.connect.keep_alive_s;
    c->max_quota = c->config.max_in_flight;
    c->server_max_packet_bytes = TW_MAX_PACKET_BYTES;
    c->server_max_qos = 2;
    c->server_retains = true;
    while (tw_next_property(&properties, &property)) {
        switch (property.id) {
        case TW_RECEIVE_MAXIMUM:
            if (property.number < c->max_quota) {
                c->max_quota = (uint16_t)property.number;
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
    c->quota = c->max_quota;
}

static bool handle_connack(tw_client *c, const tw_connack *connack, tw_event *event) {
    if (c->state != CONNECTING) {
        return close_with(c, TW_PACKET_UNEXPECTED, event);
    }
    if (connack->reason != TW_SUCCESS) {
        return closed_by_server(c, connack->reason, connack->properties, event);
    }
    if (connack->session_present && c->asked_clean) {
        return close_with(c, TW_SESSION_UNEXPECTED, event);
    }
    if (c->config.authenticator != NULL) {
        tw_result result = finish_authentication(c->config.authenticator, connack->properties);
        if (result < 0) {
            return close_with(c, result, event);
        }
    }
    take_limits(c, connack->properties);
    if (!connack->session_present) {
        c->incoming_used = 0;
        forget_exchanges(c);
    }
    c->state = CONNECTED;
    c->has_session = true;
    event->type = TW_EVENT_CONNECTED;
    event->session_present = connack->session_present;
    event->properties = connack->properties;
    return true;
}

static bool handle_publish(tw_client *c, const tw_publish *publish, tw_event *event) {
    if (publish->has_alias) {
        return close_with(c, TW_TOPIC_ALIAS_UNEXPECTED, event);
    }
    if (publish->qos == TW_EXACTLY_ONCE) {
        if (find_incoming(c, publish->packet_id) < c->incoming_used) {
            /* It has been delivered [MQTT-4.3.3-10]. */
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

/* An exchange has ended: the next message may go. */
static bool finish_record(tw_client *c, size_t at, const tw_ack *ack, tw_event_type type, tw_event *event) {
    set_state(c, at, DONE);
    if (type == TW_EVENT_PUBLISHED && c->quota < c->max_quota) {
        c->quota++;
    }
    event->type = type;
    event->packet_id = ack->packet_id;
    event->reason = ack->reason;
    event->properties = ack->properties;
    return true;
}

static bool is_qos_2(const tw_client *c, size_t at) {
    return (*packet_at(c, at) & 0x04) != 0;
}

static bool handle_puback(tw_client *c, tw_packet_type type, const tw_ack *ack, tw_event *event) {
    size_t at = find_record(c, TW_PUBLISH, ack->packet_id);
    bool is_known = at != NOWHERE && is_qos_2(c, at) == (type != TW_PUBACK);
    if (type == TW_PUBREC && (!is_known || ack->reason < TW_UNSPECIFIED_ERROR)) {
        if (is_known) {
            set_state(c, at, RELEASED);
        }
        /* [MQTT-4.3.3-4]; after the loss of a session there may be nothing to release. */
        (void)put_short(c, TW_PUBREL, ack->packet_id, is_known ? TW_SUCCESS : TW_PACKET_IDENTIFIER_NOT_FOUND);
        return false;
    }
    if (type == TW_PUBCOMP && is_known) {
        is_known = record_at(c, at).state == RELEASED;
    }
    if (type == TW_PUBREC && is_known) {
        is_known = record_at(c, at).state == SENT;
    }
    if (!is_known) {
        c->counters.acks_unexpected++;
        return false;
    }
    return finish_record(c, at, ack, TW_EVENT_PUBLISHED, event);
}

static bool handle_pubrel(tw_client *c, uint16_t packet_id) {
    size_t i = find_incoming(c, packet_id);
    bool is_known = i < c->incoming_used;
    forget_incoming(c, i);
    /* [MQTT-4.3.3-11] */
    (void)put_short(c, TW_PUBCOMP, packet_id, is_known ? TW_SUCCESS : TW_PACKET_IDENTIFIER_NOT_FOUND);
    return false;
}

static bool handle_suback(tw_client *c, tw_packet_type type, const tw_suback *suback, tw_event *event) {
    bool is_suback = type == TW_SUBACK;
    size_t at = find_record(c, is_suback ? TW_SUBSCRIBE : TW_UNSUBSCRIBE, suback->packet_id);
    tw_ack ack;
    if (at == NOWHERE) {
        c->counters.acks_unexpected++;
        return false;
    }
    ack.packet_id = suback->packet_id;
    ack.reason = TW_SUCCESS;
    ack.properties = suback->properties;
    event->reasons = suback->reasons;
    return finish_record(c, at, &ack, is_suback ? TW_EVENT_SUBSCRIBED : TW_EVENT_UNSUBSCRIBED, event);
}

static bool handle_packet(tw_client *c, const tw_packet *packet, tw_event *event) {
    const tw_notice *notice = &packet->as.notice;
    if (c->state == CONNECTING && packet->type != TW_CONNACK && packet->type != TW_AUTH) {
        return close_with(c, TW_PACKET_UNEXPECTED, event);
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
        return close_with(c, TW_PACKET_UNEXPECTED, event);
    default: return close_with(c, TW_PACKET_UNEXPECTED, event);
    }
}
