enum { LINK_CLOSED, LINK_PAUSED, LINK_OPENING, LINK_OPEN };

#define RETRY_MIN_MS 1000u
#define RETRY_MAX_MS 60000u

tw_result tw_link_init(tw_link *link, const tw_client_config *config, tw_transport transport, tw_on_event on_event,
                       void *user) {
    memset(link, 0, sizeof *link);
    link->transport = transport;
    link->on_event = on_event;
    link->user = user;
    link->retry_min_ms = RETRY_MIN_MS;
    link->retry_max_ms = RETRY_MAX_MS;
    link->state = LINK_CLOSED;
    if (transport.recv == NULL || transport.send == NULL || transport.now_ms == NULL) {
        return TW_ARGUMENT;
    }
    return tw_client_init(&link->client, config);
}

static uint32_t link_now_ms(const tw_link *link) {
    return link->transport.now_ms(link->transport.context);
}

static void pause_link(const tw_link *link, bool to_receive, bool to_send, uint32_t timeout_ms) {
    if (link->transport.wait != NULL && timeout_ms > 0) {
        link->transport.wait(link->transport.context, to_receive, to_send, timeout_ms);
    }
}

static void close_link(tw_link *link, uint8_t state) {
    if (link->transport.close != NULL) {
        link->transport.close(link->transport.context);
    }
    tw_client_close(&link->client);
    link->state = state;
    link->is_drained = false;
}

/* The connection is over: the next one is tried after a pause. */
static void lose_link(tw_link *link) {
    uint32_t now_ms = link_now_ms(link);
    close_link(link, LINK_PAUSED);
    link->retry_ms = link->retry_ms == 0 ? link->retry_min_ms : link->retry_ms * 2;
    if (link->retry_ms > link->retry_max_ms) {
        link->retry_ms = link->retry_max_ms;
    }
    /* Up to a quarter less, so that many clients do not come back at the same moment. */
    link->since_ms = now_ms - (now_ms * 2654435761u >> 16) % (link->retry_ms / 4 + 1);
}

static void tell(tw_link *link, const tw_event *event) {
    if (event->type == TW_EVENT_CONNECTED) {
        link->retry_ms = 0;
        link->error = 0;
    } else if (event->type == TW_EVENT_CLOSED) {
        link->error = event->error;
        link->reason = event->reason;
    } else if (event->packet_id == link->awaited && event->type != TW_EVENT_MESSAGE) {
        link->awaited = 0;
        link->answer = event->reasons.len > 0 ? (tw_result)event->reasons.data[0] : (tw_result)event->reason;
    }
    if (link->on_event != NULL) {
        link->is_telling = true;
        link->on_event(link->user, link, event);
        link->is_telling = false;
    }
}

static void tell_lost(tw_link *link) {
    tw_event event;
    memset(&event, 0, sizeof event);
    event.type = TW_EVENT_CLOSED;
    event.error = TW_TRANSPORT_CLOSED;
    event.reason = TW_UNSPECIFIED_ERROR;
    lose_link(link);
    tell(link, &event);
}

/* Gives the transport what it takes. False if the connection was lost. */
static bool send_output(tw_link *link) {
    tw_bytes output = tw_client_output(&link->client);
    while (output.len > 0) {
        tw_result sent = link->transport.send(link->transport.context, output.data, output.len);
        if (sent < 0) {
            return false;
        }
        if (sent == 0) {
            break;
        }
        tw_client_sent(&link->client, (size_t)sent);
        output = tw_client_output(&link->client);
    }
    return true;
}

/*
 * Tells all events and sends what they lead to, or keeps it for the next turn. False if the connection is over, in one way
 * or another.
 */
static bool turn(tw_link *link, bool keeps_output) {
    /* What there is was received before this, however long the handler takes: the next turn looks at the clock again. */
    uint32_t now_ms = link_now_ms(link);
    tw_event event;
    bool is_closed = false;
    for (;;) {
        bool was_full;
        while (!is_closed && tw_client_next(&link->client, now_ms, &event)) {
            is_closed = event.type == TW_EVENT_CLOSED;
            tell(link, &event);
        }
        if (keeps_output && !is_closed) {
            return true;
        }
        was_full = tw_client_output(&link->client).len > 0;
        if (!send_output(link)) {
            if (is_closed) {
                lose_link(link);
            } else {
                tell_lost(link);
            }
            return false;
        }
        if (is_closed) {
            lose_link(link);
            return false;
        }
        /* Sending has made room, so that more may be done with what has been received. */
        if (!was_full || tw_client_output(&link->client).len > 0) {
            return true;
        }
    }
}

static uint32_t lesser(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static void open_link(tw_link *link, uint32_t timeout_ms) {
    uint32_t now_ms = link_now_ms(link);
    tw_result opened;
    if (link->state == LINK_PAUSED) {
        uint32_t left = left_ms(now_ms, link->since_ms, link->retry_ms);
        if (left > 0) {
            pause_link(link, false, false, lesser(left, timeout_ms));
            return;
        }
    }
    if (link->state != LINK_OPENING) {
        link->state = LINK_OPENING;
        link->since_ms = now_ms;
    }
    opened = link->transport.open != NULL ? link->transport.open(link->transport.context) : 1;
    if (opened > 0) {
        link->state = LINK_OPEN;
        link->is_drained = true;
        (void)tw_client_open(&link->client, now_ms);
    } else if (opened < 0 || left_ms(now_ms, link->since_ms, link->client.config.response_timeout_ms) == 0) {
        tell_lost(link);
    } else {
        pause_link(link, false, true, timeout_ms);
    }
}

/* Waits, unless there may be more at once, and receives: 0 if nothing came, or there is no space. */
static tw_result receive_input(tw_link *link, tw_memory space, uint32_t timeout_ms) {
    if (link->is_drained || space.size == 0) {
        bool has_output = tw_client_output(&link->client).len > 0;
        uint32_t now_ms = link_now_ms(link);
        uint32_t wait_ms = lesser(timeout_ms, tw_client_wait_ms(&link->client, now_ms));
#if TW_POSIX
        if (is_tcp(&link->transport) && !has_output && space.size > 0 && wait_ms > 0) {
            return tcp_await((tw_tcp *)link->transport.context, space.data, space.size, now_ms, wait_ms);
        }
#endif
        pause_link(link, space.size > 0, has_output, wait_ms);
    }
    return space.size > 0 ? link->transport.recv(link->transport.context, space.data, space.size) : 0;
}

static tw_result step(tw_link *link, uint32_t timeout_ms, bool keeps_output) {
    tw_memory space;
    tw_result count;
    if (link->is_telling) {
        return TW_ARGUMENT;
    }
    if (link->state != LINK_OPEN) {
        open_link(link, timeout_ms);
        if (link->state != LINK_OPEN) {
            return 0;
        }
    }
    if (!turn(link, false)) {
        return 0;
    }
    space = tw_client_space(&link->client);
    count = receive_input(link, space, timeout_ms);
    if (count < 0) {
        tell_lost(link);
        return 0;
    }
    if (space.size > 0) {
        tw_client_received(&link->client, (size_t)count);
        /* A read that did not fill the space has taken everything: waiting comes first, which saves a call in vain. */
        link->is_drained = (size_t)count < space.size;
    }
    if (count > 0) {
        (void)turn(link, keeps_output);
    }
    return 0;
}

tw_result tw_link_step(tw_link *link, uint32_t timeout_ms) {
    /* Acknowledgements share a packet with what is published until the next step. One who does not wait may come late. */
    return step(link, timeout_ms, timeout_ms > 0);
}

/* Whether a wait that began at `start_ms` goes on; takes one more turn if it does. */
static bool wait_on(tw_link *link, uint32_t start_ms, uint32_t timeout_ms) {
    uint32_t left = left_ms(link_now_ms(link), start_ms, timeout_ms);
    return left > 0 && step(link, left, false) == 0;
}

tw_result tw_link_connect(tw_link *link, uint32_t timeout_ms) {
    uint32_t start_ms = link_now_ms(link);
    if (link->is_telling) {
        return TW_ARGUMENT;
    }
    link->error = 0;
    while (!tw_client_is_connected(&link->client)) {
        /* Refused, or not believed by the authenticator. */
        if (link->error <= TW_REFUSED) {
            return link->error;
        }
        if (!wait_on(link, start_ms, timeout_ms)) {
            return TW_TIMED_OUT;
        }
    }
    return 0;
}

tw_reason tw_link_reason(const tw_link *link) {
    return link->reason;
}

static tw_result await_answer(tw_link *link, tw_result packet_id, uint32_t start_ms, uint32_t timeout_ms) {
    if (packet_id <= 0) {
        return packet_id;
    }
    link->awaited = (uint16_t)packet_id;
    while (link->awaited != 0) {
        if (!wait_on(link, start_ms, timeout_ms)) {
            link->awaited = 0;
            return TW_TIMED_OUT;
        }
    }
    return link->answer;
}

tw_result tw_link_publish(tw_link *link, const tw_publish *message, uint32_t timeout_ms) {
    uint32_t start_ms = link_now_ms(link);
    tw_result result;
    if (link->is_telling) {
        return TW_ARGUMENT;
    }
    for (;;) {
        result = tw_client_publish(&link->client, message);
        if (result != TW_OUTBOX_FULL && result != TW_TRANSMIT_FULL) {
            break;
        }
        if (!wait_on(link, start_ms, timeout_ms)) {
            return TW_TIMED_OUT;
        }
    }
    if (result == 0 && !turn(link, false)) {
        return TW_TRANSPORT_CLOSED;
    }
    while (result == 0 && tw_client_output(&link->client).len > 0) {
        if (!wait_on(link, start_ms, timeout_ms)) {
            return TW_TIMED_OUT;
        }
        if (!tw_client_is_connected(&link->client)) {
            return TW_TRANSPORT_CLOSED;
        }
    }
    return await_answer(link, result, start_ms, timeout_ms);
}

tw_result tw_link_subscribe(tw_link *link, const char *filter, tw_qos qos, uint32_t timeout_ms) {
    uint32_t start_ms = link_now_ms(link);
    tw_subscription subscription = tw_filter(tw_str(filter), qos);
    tw_properties none = {NULL, 0};
    if (link->is_telling) {
        return TW_ARGUMENT;
    }
    return await_answer(link, tw_client_subscribe(&link->client, &subscription, 1, none), start_ms, timeout_ms);
}

tw_result tw_link_unsubscribe(tw_link *link, const char *filter, uint32_t timeout_ms) {
    uint32_t start_ms = link_now_ms(link);
    tw_subscription subscription = tw_filter(tw_str(filter), TW_AT_MOST_ONCE);
    tw_properties none = {NULL, 0};
    if (link->is_telling) {
        return TW_ARGUMENT;
    }
    return await_answer(link, tw_client_unsubscribe(&link->client, &subscription, 1, none), start_ms, timeout_ms);
}

tw_result tw_link_flush(tw_link *link, uint32_t timeout_ms) {
    uint32_t start_ms = link_now_ms(link);
    if (link->is_telling) {
        return TW_ARGUMENT;
    }
    /* An acknowledgement that was kept back has no answer to wait for. */
    if (link->state == LINK_OPEN) {
        (void)turn(link, false);
    }
    while (!tw_client_is_idle(&link->client)) {
        if (!wait_on(link, start_ms, timeout_ms)) {
            return TW_TIMED_OUT;
        }
    }
    return 0;
}

void tw_link_disconnect(tw_link *link) {
    if (link->is_telling) {
        return;
    }
    if (link->state == LINK_OPEN && tw_client_disconnect(&link->client, TW_SUCCESS) == 0) {
        (void)send_output(link);
    }
    tw_link_cut(link);
}

void tw_link_cut(tw_link *link) {
    if (!link->is_telling) {
        close_link(link, LINK_CLOSED);
    }
}
