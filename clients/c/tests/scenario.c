/*
 * The agent of this library for tests/scenario: `scenario mqtt://HOST:PORT`. It executes commands from its standard input and
 * prints the events, as tests/scenario/README.md describes.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tautwire.h"

#define MEMORY_BYTES (1u << 20)
#define LINE_BYTES (1u << 16)
#define TURN_MS 1000u

typedef enum duty { PRINT, ECHO, FAIL, CRASH } duty;

/* A command that waits for its answer. */
typedef struct waiting {
    struct waiting *next;
    tw_event_type answer;
    uint16_t packet_id;
    char *text;
} waiting;

typedef struct subscription {
    struct subscription *next;
    char *filter;
    tw_qos qos;
    duty task;
    char *sentence;
} subscription;

typedef struct agent {
    char host[256], port[8];
    tw_tcp tcp;
    tw_transport under;
    tw_link link;
    tw_requester requester;
    tw_request places[64];
    uint8_t receive[MEMORY_BYTES], transmit[MEMORY_BYTES], outbox[MEMORY_BYTES], subscribed[MEMORY_BYTES];
    uint8_t topics[4096], work[LINE_BYTES + 4096];
    uint16_t incoming[1024];
    char client_id[128], user[128], password[128];
    uint32_t request_timeout_ms;
    waiting *waiting;
    subscription *subscriptions;
    /* Between `connect` and its answer the client is trying; commands require a running one. */
    bool is_trying, is_running, was_connected;
    char input[LINE_BYTES];
    size_t input_len;
} agent;

static agent a;

static void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fputc('\n', stdout);
    fflush(stdout);
}

static char *copy_of(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = (char *)malloc(size);
    if (copy == NULL) {
        exit(3);
    }
    memcpy(copy, text, size);
    return copy;
}

/* The code that all languages share: this library has finer codes for protocol violations. */
static const char *code_of(tw_result error) {
    switch (tw_fault(error)) {
    case TW_FAULT_MALFORMED:
    case TW_FAULT_PROTOCOL_ERROR:
    case TW_FAULT_TOO_LARGE: return "protocol_error";
    default: return tw_error_name(error);
    }
}

/* The reason code, if a packet has one: " 0x87". */
static const char *reason_of(tw_result error, tw_reason reason) {
    static char text[8];
    switch (error) {
    case TW_CONNECTION_REFUSED:
    case TW_UNSUPPORTED_VERSION:
    case TW_REDIRECTED:
    case TW_SERVER_DISCONNECTED:
    case TW_TAKEN_OVER:
    case TW_PUBLISH_REFUSED:
    case TW_SUBSCRIBE_REFUSED:
    case TW_UNSUBSCRIBE_REFUSED:
    case TW_NO_RESPONDER: snprintf(text, sizeof text, " 0x%02x", (unsigned)reason); return text;
    default: return "";
    }
}

/* Removes the newest subscription to a filter. False if there is none. */
static bool drop(const char *filter) {
    subscription **at = &a.subscriptions, *s;
    while (*at != NULL && strcmp((*at)->filter, filter) != 0) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        return false;
    }
    s = *at;
    *at = s->next;
    free(s->filter);
    free(s->sentence);
    free(s);
    return true;
}

static void wait_for(tw_event_type answer, uint16_t packet_id, const char *text) {
    waiting *w = (waiting *)calloc(1, sizeof *w);
    if (w == NULL) {
        exit(3);
    }
    w->answer = answer;
    w->packet_id = packet_id;
    w->text = copy_of(text);
    w->next = a.waiting;
    a.waiting = w;
}

static void tell_answer(const tw_event *event, const char *text) {
    const char *reason = reason_of(event->error, event->reason);
    switch (event->type) {
    case TW_EVENT_PUBLISHED:
        if (event->error < 0) {
            say("failed publish %s%s %s", code_of(event->error), reason, text);
        } else {
            say("published %s 0x%02x", text, (unsigned)event->reason);
        }
        break;
    case TW_EVENT_SUBSCRIBED:
        if (event->error < 0) {
            say("failed subscribe %s%s", code_of(event->error), reason);
            (void)drop(text);
        } else {
            say("subscribed %s %u", text, (unsigned)event->reason);
        }
        break;
    default:
        if (event->error < 0) {
            say("failed unsubscribe %s", code_of(event->error));
        } else {
            say("unsubscribed %s", text);
        }
        break;
    }
}

static void take_answer(const tw_event *event) {
    waiting **at = &a.waiting;
    while (*at != NULL && ((*at)->answer != event->type || (*at)->packet_id != event->packet_id)) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        waiting *w = *at;
        *at = w->next;
        tell_answer(event, w->text);
        free(w->text);
        free(w);
    }
}

/* The server refuses a subscription that it had granted. */
static void take_loss(const tw_event *event) {
    char filter[256];
    snprintf(filter, sizeof filter, "%.*s", (int)event->filter.len, (const char *)event->filter.data);
    say("lost %s %s%s", filter, code_of(event->error), reason_of(event->error, event->reason));
    while (drop(filter)) {
    }
}

static void take_message(const tw_publish *message) {
    tw_memory work = tw_lend(a.work, sizeof a.work);
    subscription *s;
    for (s = a.subscriptions; s != NULL; s = s->next) {
        if (!tw_topic_matches(tw_str(s->filter), message->topic)) {
            continue;
        }
        switch (s->task) {
        case PRINT:
            say("message %.*s %u %u %.*s", (int)message->topic.len, (const char *)message->topic.data, (unsigned)message->qos,
                (unsigned)message->retain, (int)message->payload.len, (const char *)message->payload.data);
            break;
        case ECHO: (void)tw_respond(&a.link.client, message, message->payload, work); break;
        case FAIL: (void)tw_respond_failure(&a.link.client, message, s->sentence, work); break;
        case CRASH: (void)tw_respond_failure(&a.link.client, message, NULL, work); break;
        }
    }
}

static void on_event(void *user, tw_link *link, const tw_event *event) {
    (void)user;
    (void)link;
    switch (event->type) {
    case TW_EVENT_CONNECTED:
        say("connected %d", event->session_present);
        a.was_connected = true;
        a.is_running = true;
        a.is_trying = false;
        break;
    case TW_EVENT_MESSAGE: take_message(&event->message); break;
    case TW_EVENT_PUBLISHED:
    case TW_EVENT_SUBSCRIBED:
    case TW_EVENT_UNSUBSCRIBED:
        if (event->filter.len > 0) {
            take_loss(event);
        } else {
            take_answer(event);
        }
        break;
    case TW_EVENT_CLOSED:
        say("%s %s%s",
            a.is_trying         ? "failed connect"
            : event->is_final   ? "ended"
            : a.was_connected   ? "disconnected"
                                : "attempt",
            code_of(event->error), reason_of(event->error, event->reason));
        a.was_connected = false;
        a.is_trying = false;
        break;
    default: break;
    }
}

static void on_response(void *user, tw_requester *requester, const tw_response *response) {
    (void)user;
    (void)requester;
    if (response->error == 0) {
        say("response %.*s", (int)response->payload.len, (const char *)response->payload.data);
    } else if (response->error == TW_REQUEST_FAILED) {
        say("failed request request_failed %.*s", (int)response->sentence.len, (const char *)response->sentence.data);
    } else {
        say("failed request %s%s", code_of(response->error), reason_of(response->error, response->reason));
    }
}

/* Waits for the socket, and for commands. */
static void agent_wait(void *context, bool to_receive, bool to_send, uint32_t timeout_ms) {
    struct pollfd pollers[2];
    (void)context;
    pollers[0].fd = a.tcp.fd;
    pollers[0].events = (short)((to_receive ? POLLIN : 0) | (to_send ? POLLOUT : 0));
    pollers[1].fd = STDIN_FILENO;
    pollers[1].events = POLLIN;
    (void)poll(pollers, 2, timeout_ms < TURN_MS ? (int)timeout_ms : (int)TURN_MS);
}

static void random_bytes(uint8_t *to, size_t len) {
    FILE *file = fopen("/dev/urandom", "rb");
    if (file == NULL || fread(to, 1, len, file) != len) {
        exit(3);
    }
    fclose(file);
}

/* Removes the first word of a line. */
static char *word(char **rest) {
    char *first = *rest, *space = strchr(first, ' ');
    *rest = space == NULL ? first + strlen(first) : space + 1;
    if (space != NULL) {
        *space = '\0';
    }
    return first;
}

/* The value of KEY=VALUE, or NULL. */
static const char *value_of(const char *option, const char *key) {
    size_t len = strlen(key);
    return strncmp(option, key, len) == 0 && option[len] == '=' ? option + len + 1 : NULL;
}

static tw_bytes keep(char *to, size_t size, const char *value) {
    snprintf(to, size, "%s", value);
    return tw_str(to);
}

static void take_option(const char *option, tw_client_config *config, uint32_t *retry_max_ms) {
    const char *value;
    if ((value = value_of(option, "client")) != NULL) {
        config->connect.client_id = keep(a.client_id, sizeof a.client_id, value);
    } else if ((value = value_of(option, "version")) != NULL) {
        config->connect.version = strcmp(value, "4") == 0 ? TW_V3_1_1 : TW_V5;
    } else if ((value = value_of(option, "expiry")) != NULL) {
        config->session_expiry_s = (uint32_t)strtoul(value, NULL, 10);
    } else if ((value = value_of(option, "user")) != NULL) {
        config->connect.user_name = keep(a.user, sizeof a.user, value);
    } else if ((value = value_of(option, "password")) != NULL) {
        config->connect.password = keep(a.password, sizeof a.password, value);
    } else if ((value = value_of(option, "attempts_ms")) != NULL) {
        *retry_max_ms = (uint32_t)strtoul(value, NULL, 10);
    } else if ((value = value_of(option, "connect_ms")) != NULL) {
        config->connect_timeout_ms = (uint32_t)strtoul(value, NULL, 10);
    } else if ((value = value_of(option, "timeout_ms")) != NULL) {
        a.request_timeout_ms = (uint32_t)strtoul(value, NULL, 10);
    } else if (strcmp(option, "resume") == 0) {
        config->connect.clean_start = false;
    }
}

static tw_result set_up(char *options) {
    tw_client_config config = tw_client_defaults();
    tw_requester_config requests;
    tw_transport transport;
    uint8_t random[TW_REQUESTER_RANDOM_BYTES];
    uint32_t retry_max_ms = 0;
    tw_result result;
    a.under = tw_tcp_transport(&a.tcp, a.host, a.port);
    transport = a.under;
    transport.wait = agent_wait;
    a.request_timeout_ms = TW_REQUEST_TIMEOUT_DEFAULT_MS;
    snprintf(a.client_id, sizeof a.client_id, "scenario-c-%ld", (long)getpid());
    config.connect.client_id = tw_str(a.client_id);
    config.receive = tw_lend(a.receive, sizeof a.receive);
    config.transmit = tw_lend(a.transmit, sizeof a.transmit);
    config.outbox = tw_lend(a.outbox, sizeof a.outbox);
    config.subscriptions = tw_lend(a.subscribed, sizeof a.subscribed);
    config.incoming = a.incoming;
    config.incoming_count = sizeof a.incoming / sizeof a.incoming[0];
    while (*options != '\0') {
        take_option(word(&options), &config, &retry_max_ms);
    }
    result = tw_link_init(&a.link, &config, transport, on_event, NULL);
    if (result < 0) {
        return result;
    }
    if (retry_max_ms > 0) {
        a.link.retry_max_ms = retry_max_ms;
        a.link.retry_min_ms = a.link.retry_min_ms < retry_max_ms ? a.link.retry_min_ms : retry_max_ms;
    }
    if (config.connect.version == TW_V5) {
        random_bytes(random, sizeof random);
        memset(&requests, 0, sizeof requests);
        requests.client = &a.link.client;
        requests.places = a.places;
        requests.count = sizeof a.places / sizeof a.places[0];
        requests.memory = tw_lend(a.topics, sizeof a.topics);
        requests.random = random;
        requests.on_response = on_response;
        result = tw_requester_init(&a.requester, &requests);
        a.link.requester = &a.requester;
    }
    return result;
}

static void do_connect(char *options) {
    tw_result result = set_up(options);
    /* tw_link_connect() would block the commands: this is one attempt in steps, whose first event is the answer. */
    a.is_trying = result == 0;
    if (result < 0) {
        say("failed connect %s", code_of(result));
    }
}

static void do_start(char *options) {
    tw_result result = set_up(options);
    a.is_running = result == 0;
    if (result < 0) {
        say("ended %s", code_of(result));
    }
}

/* The QoS that the subscriptions to a filter need together; -1 for none. */
static int qos_of(const char *filter) {
    int qos = -1;
    subscription *s;
    for (s = a.subscriptions; s != NULL; s = s->next) {
        if (strcmp(s->filter, filter) == 0 && (int)s->qos > qos) {
            qos = (int)s->qos;
        }
    }
    return qos;
}

static tw_result ask(const char *filter, tw_qos qos, uint16_t *packet_id) {
    tw_subscription list = tw_filter(tw_str(filter), qos);
    tw_properties none = {NULL, 0};
    return tw_client_subscribe(&a.link.client, &list, 1, none, packet_id);
}

static void subscribe(tw_qos qos, const char *filter, duty task, const char *sentence) {
    subscription *s = (subscription *)calloc(1, sizeof *s);
    uint16_t packet_id;
    tw_result result;
    if (s == NULL) {
        exit(3);
    }
    s->filter = copy_of(filter);
    s->qos = qos;
    s->task = task;
    s->sentence = copy_of(sentence);
    s->next = a.subscriptions;
    a.subscriptions = s;
    result = ask(filter, (tw_qos)qos_of(filter), &packet_id);
    if (result < 0) {
        say("failed subscribe %s", code_of(result));
        (void)drop(filter);
    } else {
        wait_for(TW_EVENT_SUBSCRIBED, packet_id, filter);
    }
}

static void do_respond(char *rest) {
    const char *filter = word(&rest), *how = word(&rest);
    duty task = strcmp(how, "echo") == 0 ? ECHO : strcmp(how, "failure") == 0 ? FAIL : CRASH;
    subscribe(TW_AT_LEAST_ONCE, filter, task, rest);
}

static void do_unsubscribe(const char *filter) {
    int before = qos_of(filter), after;
    uint16_t packet_id = 0;
    tw_subscription list = tw_filter(tw_str(filter), TW_AT_MOST_ONCE);
    tw_properties none = {NULL, 0};
    tw_result result = 0;
    if (!drop(filter)) {
        say("failed unsubscribe %s", code_of(TW_ARGUMENT));
        return;
    }
    after = qos_of(filter);
    if (after < 0) {
        result = tw_client_unsubscribe(&a.link.client, &list, 1, none, &packet_id);
    } else if (after < before) {
        result = ask(filter, (tw_qos)after, NULL);
    }
    if (result < 0) {
        say("failed unsubscribe %s", code_of(result));
    } else if (packet_id == 0) {
        say("unsubscribed %s", filter);
    } else {
        wait_for(TW_EVENT_UNSUBSCRIBED, packet_id, filter);
    }
}

static void do_publish(char *rest) {
    tw_qos qos = (tw_qos)atoi(word(&rest));
    const char *topic = word(&rest);
    tw_publish message = tw_message(tw_str(topic), tw_str(rest), qos);
    uint16_t packet_id;
    tw_result result = tw_client_publish(&a.link.client, &message, &packet_id);
    if (result < 0) {
        say("failed publish %s %s", code_of(result), rest);
    } else if (packet_id == 0) {
        say("published %s 0x00", rest);
    } else {
        wait_for(TW_EVENT_PUBLISHED, packet_id, rest);
    }
}

static void do_request(char *rest) {
    tw_qos qos = (tw_qos)atoi(word(&rest));
    const char *topic = word(&rest);
    tw_publish message = tw_message(tw_str(topic), tw_str(rest), qos);
    uint32_t now_ms = a.under.now_ms(a.under.context);
    tw_result result = a.link.requester == NULL
                           ? (tw_result)TW_NOT_IN_VERSION
                           : tw_requester_send(&a.requester, &message, now_ms, a.request_timeout_ms, NULL);
    if (result < 0) {
        say("failed request %s", code_of(result));
    }
}

static void do_close(void) {
    if (a.is_running || a.is_trying) {
        tw_link_disconnect(&a.link);
    }
    a.is_running = false;
    a.is_trying = false;
    say("closed");
}

static void obey(char *line) {
    const char *command = word(&line);
    if (strcmp(command, "connect") == 0) {
        do_connect(line);
    } else if (strcmp(command, "start") == 0) {
        do_start(line);
    } else if (strcmp(command, "close") == 0) {
        do_close();
    } else if (!a.is_running && strcmp(command, "publish") == 0) {
        (void)word(&line);
        (void)word(&line);
        say("failed publish %s %s", code_of(TW_NOT_CONNECTED), line);
    } else if (!a.is_running) {
        say("failed %s %s", command, code_of(TW_NOT_CONNECTED));
    } else if (strcmp(command, "subscribe") == 0) {
        tw_qos qos = (tw_qos)atoi(word(&line));
        subscribe(qos, line, PRINT, "");
    } else if (strcmp(command, "unsubscribe") == 0) {
        do_unsubscribe(line);
    } else if (strcmp(command, "publish") == 0) {
        do_publish(line);
    } else if (strcmp(command, "respond") == 0) {
        do_respond(line);
    } else if (strcmp(command, "request") == 0) {
        do_request(line);
    } else {
        fprintf(stderr, "no such command: %s\n", command);
        exit(2);
    }
}

/* Reads available input, and executes complete lines. False at the end of the input. */
static bool read_commands(void) {
    char *at = a.input, *end;
    ssize_t count = read(STDIN_FILENO, a.input + a.input_len, sizeof a.input - a.input_len);
    if (count <= 0) {
        return count < 0 && errno == EINTR;
    }
    a.input_len += (size_t)count;
    while ((end = (char *)memchr(at, '\n', a.input_len - (size_t)(at - a.input))) != NULL) {
        *end = '\0';
        obey(at);
        at = end + 1;
    }
    a.input_len -= (size_t)(at - a.input);
    memmove(a.input, at, a.input_len);
    return true;
}

static bool has_commands(int timeout_ms) {
    struct pollfd poller;
    poller.fd = STDIN_FILENO;
    poller.events = POLLIN;
    poller.revents = 0;
    return poll(&poller, 1, timeout_ms) > 0;
}

static bool read_address(const char *address) {
    const char *scheme = "mqtt://", *colon;
    size_t len;
    if (strncmp(address, scheme, strlen(scheme)) != 0) {
        return false;
    }
    address += strlen(scheme);
    colon = strrchr(address, ':');
    len = colon == NULL ? 0 : (size_t)(colon - address);
    if (len == 0 || len >= sizeof a.host || strlen(colon + 1) >= sizeof a.port) {
        return false;
    }
    memcpy(a.host, address, len);
    memcpy(a.port, colon + 1, strlen(colon + 1));
    return true;
}

int main(int argc, char **argv) {
    bool goes_on = true;
    if (argc != 2 || !read_address(argv[1])) {
        fprintf(stderr, "usage: %s mqtt://HOST:PORT\n", argv[0]);
        return 2;
    }
    while (goes_on) {
        if (has_commands(a.is_running || a.is_trying ? 0 : -1)) {
            goes_on = read_commands();
        } else if (tw_link_step(&a.link, TURN_MS) < 0) {
            /* It has given up, and printed that. */
            a.is_running = false;
        } else if (!a.is_running && !a.is_trying) {
            tw_link_cut(&a.link);
        }
    }
    if (a.is_running || a.is_trying) {
        tw_link_disconnect(&a.link);
    }
    while (a.subscriptions != NULL) {
        (void)drop(a.subscriptions->filter);
    }
    while (a.waiting != NULL) {
        waiting *next = a.waiting->next;
        free(a.waiting->text);
        free(a.waiting);
        a.waiting = next;
    }
    return 0;
}
