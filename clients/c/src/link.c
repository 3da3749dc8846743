/* LINK_ENDED: the server will not accept another attempt. */
enum { LINK_CLOSED, LINK_PAUSED, LINK_OPENING, LINK_OPEN, LINK_ENDED };

/* A number from the client identifier (FNV-1a), so that devices that are switched on together have different delays. */
static uint32_t dice_of(tw_bytes client_id) {
    uint32_t dice = 2166136261u;
    size_t i;
    for (i = 0; i < client_id.len; i++) {
        dice = (dice ^ client_id.data[i]) * 16777619u;
    }
    return dice;
}

tw_result tw_link_init(tw_link *link, const tw_client_config *config, tw_transport transport, tw_on_event on_event,
                       void *user) {
    memset(link, 0, sizeof *link);
    link->transport = transport;
    link->on_event = on_event;
    link->user = user;
    link->retry_min_ms = TW_RETRY_MIN_DEFAULT_MS;
    link->retry_max_ms = TW_RETRY_MAX_DEFAULT_MS;
    link->dice = dice_of(config->connect.client_id);
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

/* The connection has ended: the next attempt follows after a delay, unless it cannot help. */
static void lose_link(tw_link *link) {
    uint32_t now_ms = link_now_ms(link);
    close_link(link, link->is_final ? LINK_ENDED : LINK_PAUSED);
    link->retry_ms = link->retry_ms == 0 ? link->retry_min_ms : link->retry_ms * 2;
    if (link->retry_ms > link->retry_max_ms) {
        link->retry_ms = link->retry_max_ms;
    }
    link->dice = (link->dice ^ now_ms) * 1664525u + 1013904223u;
    link->since_ms = now_ms - (link->dice >> 16) % (link->retry_ms / 2 + 1);
}

static void tell(tw_link *link, const tw_event *event) {
    if (event->type == TW_EVENT_CONNECTED) {
        link->retry_ms = 0;
        link->error = 0;
        link->reason = TW_SUCCESS;
        link->is_final = false;
    } else if (event->type == TW_EVENT_CLOSED) {
        link->error = event->error;
        link->reason = event->reason;
        link->is_final = event->is_final;
    } else if (event->packet_id == link->awaited && event->type != TW_EVENT_MESSAGE) {
        link->awaited = 0;
        link->answer = event->error;
        link->reason = event->reason;
    }
    link->is_telling = true;
#if TW_REQUESTS
    if (link->requester != NULL && tw_requester_take(link->requester, event)) {
        link->is_telling = false;
        return;
    }
#endif
    if (link->on_event != NULL) {
        link->on_event(link->user, link, event);
    }
    link->is_telling = false;
}

/* The transport has failed: with `error`, if that says more. */
static void tell_lost(tw_link *link, tw_result error) {
    tw_event event;
    memset(&event, 0, sizeof event);
    event.type = TW_EVENT_CLOSED;
    event.error = error;
    if (tw_fault(error) != TW_FAULT_CONNECTION) {
        event.error = link->state == LINK_OPENING             ? TW_UNREACHABLE
                      : tw_client_is_connected(&link->client) ? TW_CONNECTION_LOST
                                                              : TW_HANDSHAKE_FAILED;
    }
    link->is_final = false;
    lose_link(link);
    tell(link, &event);
}

/* Passes output to the transport. Returns 0, or the error of the transport. */
static tw_result send_output(tw_link *link) {
    tw_bytes output = tw_client_output(&link->client);
    while (output.len > 0) {
        tw_result sent = link->transport.send(link->transport.context, output.data, output.len);
        if (sent <= 0) {
            return sent;
        }
        tw_client_sent(&link->client, (size_t)sent);
        output = tw_client_output(&link->client);
    }
    return 0;
}

/*
 * Reports all events and sends the resulting output, or keeps it for the next turn. False if the connection has ended, for
 * any reason.
 */
static bool turn(tw_link *link, bool keeps_output) {
    /* The received bytes are older than this, however long the handler takes: the next turn reads the clock again. */
    uint32_t now_ms = link_now_ms(link);
    tw_event event;
    bool is_closed = false;
    for (;;) {
        bool was_full, has_left;
        tw_result sent;
        while (!is_closed && tw_client_next(&link->client, now_ms, &event)) {
            is_closed = event.type == TW_EVENT_CLOSED;
            tell(link, &event);
        }
        has_left = !is_closed && link->client.state == CLOSING;
        if (keeps_output && !is_closed && !has_left) {
            return true;
        }
        was_full = tw_client_output(&link->client).len > 0;
        sent = send_output(link);
        if (is_closed) {
            lose_link(link);
            return false;
        }
        if (has_left) {
            /* The application has called tw_client_disconnect(), most likely in its handler. */
            close_link(link, LINK_CLOSED);
            return false;
        }
        if (sent < 0) {
            tell_lost(link, sent);
            return false;
        }
        /* Sending has made room, so that more of the received bytes can be handled. */
        if (!was_full || tw_client_output(&link->client).len > 0) {
            return true;
        }
    }
}

static uint32_t lesser(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static void open_link(tw_link *link, uint32_t timeout_ms) {
    uint32_t now_ms = link_now_ms(link), left;
    tw_result opened;
    if (link->state == LINK_PAUSED) {
        left = left_ms(now_ms, link->since_ms, link->retry_ms);
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
        /* The time limit of an attempt starts at its beginning. */
        (void)tw_client_open(&link->client, link->since_ms);
        return;
    }
    left = left_ms(now_ms, link->since_ms, link->client.config.connect_timeout_ms);
    if (opened < 0 || left == 0) {
        tell_lost(link, opened < 0 ? opened : (tw_result)TW_CONNECT_TIMEOUT);
    } else {
        pause_link(link, false, true, lesser(left, timeout_ms));
    }
}

/* Waits, unless there may be more data at once, and receives: 0 if nothing arrived, or there is no space. */
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
#if TW_REQUESTS
    if (link->requester != NULL) {
        link->is_telling = true;
        timeout_ms = lesser(timeout_ms, tw_requester_turn(link->requester, link_now_ms(link)));
        link->is_telling = false;
    }
#endif
    if (link->state == LINK_ENDED) {
        return link->error;
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
        tell_lost(link, count);
        return 0;
    }
    if (space.size > 0) {
        tw_client_received(&link->client, (size_t)count);
        /* A read that did not fill the space has read everything: wait first, which saves a useless call. */
        link->is_drained = (size_t)count < space.size;
    }
    if (count > 0) {
        (void)turn(link, keeps_output);
    }
    return 0;
}

tw_result tw_link_step(tw_link *link, uint32_t timeout_ms) {
    /* Acknowledgements share a packet with what is published until the next step. With a timeout of 0 the next step may be
     * late. */
    return step(link, timeout_ms, timeout_ms > 0);
}

/* Whether a wait that started at `start_ms` continues; if so, runs one more turn. */
static bool wait_on(tw_link *link, uint32_t start_ms, uint32_t timeout_ms) {
    uint32_t left = left_ms(link_now_ms(link), start_ms, timeout_ms);
    return left > 0 && step(link, left, false) == 0;
}

/* For results without a packet of the server, which have no reason code. */
static tw_result without_reason(tw_link *link, tw_result result) {
    link->reason = TW_SUCCESS;
    return result;
}

/* The result of a wait that failed. A link that has given up returns its error. */
static tw_result gave_up(tw_link *link, tw_result otherwise) {
    return link->state == LINK_ENDED ? link->error : without_reason(link, otherwise);
}

tw_result tw_link_connect(tw_link *link, uint32_t timeout_ms) {
    uint32_t start_ms = link_now_ms(link);
    if (link->is_telling) {
        return TW_ARGUMENT;
    }
    if (link->state == LINK_PAUSED || link->state == LINK_ENDED) {
        link->state = LINK_CLOSED;
    }
    link->error = 0;
    while (!tw_client_is_connected(&link->client) && link->error == 0 && wait_on(link, start_ms, timeout_ms)) {
    }
    if (tw_client_is_connected(&link->client)) {
        return 0;
    }
    if (link->error == 0) {
        link->error = TW_CONNECT_TIMEOUT;
        link->reason = TW_SUCCESS;
    }
    if (link->state == LINK_OPENING || link->state == LINK_OPEN) {
        close_link(link, LINK_CLOSED);
    }
    link->state = LINK_CLOSED;
    link->retry_ms = 0;
    return link->error;
}

tw_reason tw_link_reason(const tw_link *link) {
    return link->reason;
}

static tw_result await_answer(tw_link *link, uint16_t packet_id, uint32_t start_ms, uint32_t timeout_ms) {
    link->awaited = packet_id;
    while (link->awaited != 0) {
        if (!wait_on(link, start_ms, timeout_ms)) {
            link->awaited = 0;
            return gave_up(link, TW_UNACKNOWLEDGED);
        }
    }
    return link->answer;
}

/* Waits until the transport has accepted a QoS 0 message. */
static tw_result await_output(tw_link *link, uint32_t start_ms, uint32_t timeout_ms) {
    if (!turn(link, false)) {
        return TW_CONNECTION_LOST;
    }
    while (tw_client_output(&link->client).len > 0) {
        if (!wait_on(link, start_ms, timeout_ms)) {
            return gave_up(link, TW_UNACKNOWLEDGED);
        }
        if (!tw_client_is_connected(&link->client)) {
            return TW_CONNECTION_LOST;
        }
    }
    return 0;
}

tw_result tw_link_publish(tw_link *link, const tw_publish *message, uint32_t timeout_ms) {
    uint32_t start_ms = link_now_ms(link);
    uint16_t packet_id;
    tw_result result;
    if (link->is_telling) {
        return TW_ARGUMENT;
    }
    for (;;) {
        result = tw_client_publish(&link->client, message, &packet_id);
        if (result != TW_OUTBOX_FULL && result != TW_OUTPUT_FULL) {
            break;
        }
        if (!wait_on(link, start_ms, timeout_ms)) {
            return gave_up(link, result);
        }
    }
    if (result < 0) {
        return without_reason(link, result);
    }
    if (packet_id != 0) {
        return await_answer(link, packet_id, start_ms, timeout_ms);
    }
    result = await_output(link, start_ms, timeout_ms);
    return result < 0 ? result : without_reason(link, 0);
}

tw_result tw_link_subscribe(tw_link *link, const char *filter, tw_qos qos, uint32_t timeout_ms, tw_qos *granted) {
    uint32_t start_ms = link_now_ms(link);
    tw_subscription subscription = tw_filter(tw_str(filter), qos);
    tw_properties none = {NULL, 0};
    uint16_t packet_id;
    tw_result result;
    if (link->is_telling) {
        return TW_ARGUMENT;
    }
    result = tw_client_subscribe(&link->client, &subscription, 1, none, &packet_id);
    result = result < 0 ? without_reason(link, result) : await_answer(link, packet_id, start_ms, timeout_ms);
    if (granted != NULL) {
        *granted = result == 0 ? (tw_qos)link->reason : TW_AT_MOST_ONCE;
    }
    return result;
}

tw_result tw_link_unsubscribe(tw_link *link, const char *filter, uint32_t timeout_ms) {
    uint32_t start_ms = link_now_ms(link);
    tw_subscription subscription = tw_filter(tw_str(filter), TW_AT_MOST_ONCE);
    tw_properties none = {NULL, 0};
    uint16_t packet_id;
    tw_result result;
    if (link->is_telling) {
        return TW_ARGUMENT;
    }
    result = tw_client_unsubscribe(&link->client, &subscription, 1, none, &packet_id);
    return result < 0 ? without_reason(link, result) : await_answer(link, packet_id, start_ms, timeout_ms);
}

tw_result tw_link_flush(tw_link *link, uint32_t timeout_ms) {
    uint32_t start_ms = link_now_ms(link);
    if (link->is_telling) {
        return TW_ARGUMENT;
    }
    /* A deferred acknowledgement has no answer to wait for. */
    if (link->state == LINK_OPEN) {
        (void)turn(link, false);
    }
    while (!tw_client_is_idle(&link->client)) {
        if (!wait_on(link, start_ms, timeout_ms)) {
            return gave_up(link, TW_UNACKNOWLEDGED);
        }
    }
    return without_reason(link, 0);
}

#if TW_REQUESTS
typedef struct awaited_response {
    tw_on_response on_response;
    void *user;
    uint32_t number;
    tw_memory memory;
    tw_response response;
    bool is_there;
} awaited_response;

/* Stores the awaited response, and passes others on. */
static void on_awaited(void *user, tw_requester *requester, const tw_response *response) {
    awaited_response *awaited = (awaited_response *)user;
    tw_bytes text = response->error == TW_REQUEST_FAILED ? response->sentence : response->payload;
    if (response->number != awaited->number) {
        awaited->on_response(awaited->user, requester, response);
        return;
    }
    awaited->response = *response;
    awaited->is_there = true;
    awaited->response.properties = tw_view(NULL, 0);
    if (text.len > awaited->memory.size) {
        awaited->response.error = TW_BUFFER_TOO_SMALL;
        text.len = 0;
    }
    (void)append(awaited->memory.data, 0, text);
    text.data = awaited->memory.data;
    if (response->error == TW_REQUEST_FAILED) {
        awaited->response.sentence = text;
    } else {
        awaited->response.payload = text;
    }
}

tw_result tw_link_request(tw_link *link, const tw_publish *request, uint32_t timeout_ms, tw_memory memory, tw_response *response) {
    uint32_t start_ms = link_now_ms(link);
    tw_requester *requester = link->requester;
    awaited_response awaited;
    tw_result result;
    memset(&awaited, 0, sizeof awaited);
    if (link->is_telling || requester == NULL) {
        return TW_ARGUMENT;
    }
    result = tw_requester_send(requester, request, start_ms, timeout_ms, &awaited.number);
    if (result < 0) {
        return without_reason(link, result);
    }
    awaited.on_response = requester->on_response;
    awaited.user = requester->user;
    awaited.memory = memory;
    requester->on_response = on_awaited;
    requester->user = &awaited;
    /* The requester's timeout ends the wait. */
    while (!awaited.is_there && step(link, timeout_ms, false) == 0) {
    }
    if (!awaited.is_there) {
        tw_requester_cancel(requester, awaited.number);
        awaited.response.error = gave_up(link, TW_REQUEST_TIMEOUT);
    }
    requester->on_response = awaited.on_response;
    requester->user = awaited.user;
    *response = awaited.response;
    link->reason = response->reason;
    return response->error;
}
#endif

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
