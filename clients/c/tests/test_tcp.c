/* The link on TCP, with a server in this program: what it waits for, and for how long. */
#define _XOPEN_SOURCE 700
#include "rig.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Longer than any wait here, even on a busy machine. */
#define LONG_MS 20000u

static tw_link link_;
static tw_tcp tcp;
static tw_transport transport;
static int server = -1;
static int events[8];
static uint8_t receive_memory[256], transmit_memory[128], outbox_memory[256];
static char port[8];

static void on_event(void *user, tw_link *link, const tw_event *event) {
    (void)user;
    (void)link;
    events[event->type]++;
}

static void say(const char *hex) {
    uint8_t bytes[64];
    size_t len = unhex(hex, bytes);
    CHECK(send(server, bytes, len, 0) == (ssize_t)len, "say");
}

/* Whether the server receives exactly this. */
static bool hears(const char *hex) {
    uint8_t want[64], got[64];
    size_t len = unhex(hex, want);
    return recv(server, got, len, MSG_WAITALL) == (ssize_t)len && memcmp(want, got, len) == 0;
}

static uint32_t now_ms(void) {
    return transport.now_ms(transport.context);
}

static uint32_t step_takes_ms(uint32_t timeout_ms) {
    uint32_t start_ms = now_ms();
    CHECK(tw_link_step(&link_, timeout_ms) == 0, "step");
    return now_ms() - start_ms;
}

static int listen_with(int backlog) {
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, backlog) == 0 &&
              getsockname(fd, (struct sockaddr *)&address, &len) == 0,
          "listen");
    sprintf(port, "%u", ntohs(address.sin_port));
    return fd;
}

static int listen_anywhere(void) {
    return listen_with(1);
}

/* `recv_by` receives in place of TCP; NULL: TCP itself. */
static void connect_by(tw_result (*recv_by)(void *context, uint8_t *to, size_t size)) {
    tw_client_config config = tw_client_defaults();
    int listener = listen_anywhere();
    memset(events, 0, sizeof events);
    config.connect.version = TW_V3_1_1;
    config.connect.client_id = tw_str("c");
    config.connect.keep_alive_s = 0;
    config.receive = tw_lend(receive_memory, sizeof receive_memory);
    config.transmit = tw_lend(transmit_memory, sizeof transmit_memory);
    config.outbox = tw_lend(outbox_memory, sizeof outbox_memory);
    transport = tw_tcp_transport(&tcp, "127.0.0.1", port);
    if (recv_by != NULL) {
        transport.recv = recv_by;
    }
    CHECK(tw_link_init(&link_, &config, transport, on_event, NULL) == 0, "init");
    while (!tcp.is_open) {
        CHECK(tw_link_step(&link_, 10) == 0 && events[TW_EVENT_CLOSED] == 0, "open");
    }
    server = accept(listener, NULL, NULL);
    close(listener);
    say("2002 0000");
    CHECK(tw_link_connect(&link_, LONG_MS) == 0, "connect");
    CHECK(hears("100d 0004 4d515454 04 02 0000 0001 63"), "CONNECT");
}

static void close_all(void) {
    tw_link_cut(&link_);
    close(server);
}

/* Messages arrive as soon as they are waited for. */
static void make_brisk(void) {
    int messages = events[TW_EVENT_MESSAGE], i;
    for (i = 1; i <= 1000 && (i <= 10 || !tcp.may_block); i++) {
        say("3004 0001 74 78");
        while (events[TW_EVENT_MESSAGE] < messages + i) {
            CHECK(tw_link_step(&link_, LONG_MS) == 0 && events[TW_EVENT_CLOSED] == 0, "message %d", i);
        }
    }
}

static void a_timeout_is_respected_on_a_busy_connection(void) {
    uint32_t timeouts_ms[] = {1, 30, 99, 100, 101, 250}, took_ms;
    size_t i;
    connect_by(NULL);
    for (i = 0; i < sizeof timeouts_ms / sizeof *timeouts_ms; i++) {
        make_brisk();
        CHECK(tcp.may_block, "the line is brisk");
        took_ms = step_takes_ms(timeouts_ms[i]);
        /* The clock is truncated to milliseconds. */
        CHECK(took_ms + 1 >= timeouts_ms[i] && took_ms < timeouts_ms[i] + 2000, "%u ms for %u", took_ms, timeouts_ms[i]);
        took_ms = step_takes_ms(timeouts_ms[i]);
        CHECK(took_ms + 1 >= timeouts_ms[i] && took_ms < timeouts_ms[i] + 2000, "%u ms for %u", took_ms, timeouts_ms[i]);
    }
    close_all();
}

static void a_step_without_a_timeout_does_not_wait(void) {
    uint32_t start_ms;
    int i;
    connect_by(NULL);
    make_brisk();
    start_ms = now_ms();
    for (i = 0; i < 100; i++) {
        CHECK(tw_link_step(&link_, 0) == 0, "step");
    }
    CHECK(now_ms() - start_ms < 2000, "%u ms", now_ms() - start_ms);
    CHECK(transport.recv(transport.context, receive_memory, 1) == 0, "nor does a receive");
    CHECK(events[TW_EVENT_CLOSED] == 0, "open");
    close_all();
}

static void sending_does_not_wait(void) {
    static const uint8_t bytes[65536];
    tw_result sent;
    connect_by(NULL);
    make_brisk();
    do {
        sent = transport.send(transport.context, bytes, sizeof bytes);
    } while (sent > 0);
    CHECK(sent == 0, "full");
    close_all();
}

static void on_alarm(int number) {
    (void)number;
}

static void a_signal_ends_a_wait(void) {
    struct itimerval each = {{0, 20000}, {0, 20000}}, none = {{0, 0}, {0, 0}};
    struct sigaction action;
    uint32_t took_ms;
    connect_by(NULL);
    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    make_brisk();
    setitimer(ITIMER_REAL, &each, NULL);
    took_ms = step_takes_ms(LONG_MS);
    took_ms += step_takes_ms(LONG_MS);
    setitimer(ITIMER_REAL, &none, NULL);
    CHECK(took_ms < LONG_MS / 2, "%u ms", took_ms);
    CHECK(events[TW_EVENT_CLOSED] == 0, "open");
    close_all();
}

static void a_closed_connection_is_detected(void) {
    connect_by(NULL);
    make_brisk();
    close(server);
    server = -1;
    CHECK(step_takes_ms(LONG_MS) < LONG_MS / 2, "at once");
    CHECK(events[TW_EVENT_CLOSED] == 1, "closed");
    close_all();
    connect_by(NULL);
    CHECK(!tcp.may_block, "the next socket begins as one that never blocks");
    make_brisk();
    close_all();
}

static tw_result receive_in_their_place(void *context, uint8_t *to, size_t size) {
    ssize_t count = recv(((tw_tcp *)context)->fd, to, size, 0);
    return count > 0 ? (tw_result)count : count < 0 ? 0 : -1;
}

static void a_socket_shared_with_another_reader_never_blocks(void) {
    int i;
    connect_by(receive_in_their_place);
    for (i = 1; i <= 10; i++) {
        say("3004 0001 74 78");
        while (events[TW_EVENT_MESSAGE] < i) {
            CHECK(tw_link_step(&link_, LONG_MS) == 0 && events[TW_EVENT_CLOSED] == 0, "message %d", i);
        }
    }
    CHECK((fcntl(tcp.fd, F_GETFL, 0) & O_NONBLOCK) != 0 && !tcp.may_block, "never");
    close_all();
}

static tw_result connect_to(const char *host, const char *to_port) {
    tw_client_config config = tw_client_defaults();
    tw_result result;
    config.connect.client_id = tw_str("c");
    config.receive = tw_lend(receive_memory, sizeof receive_memory);
    config.transmit = tw_lend(transmit_memory, sizeof transmit_memory);
    transport = tw_tcp_transport(&tcp, host, to_port);
    CHECK(tw_link_init(&link_, &config, transport, on_event, NULL) == 0, "init");
    result = tw_link_connect(&link_, LONG_MS);
    CHECK(tcp.fd < 0, "nothing is left open");
    return result;
}

static void invalid_addresses_are_reported(void) {
    int listener = listen_anywhere();
    uint32_t start_ms;
    tw_result result;
    /* Its port is free again, and has no listener. */
    close(listener);
    transport = tw_tcp_transport(&tcp, "127.0.0.1", port);
    start_ms = now_ms();
    result = connect_to("127.0.0.1", port);
    CHECK(result == TW_UNREACHABLE, "%s", tw_error_name(result));
    CHECK(now_ms() - start_ms < LONG_MS / 2, "at once");
    /* A name with two dots is invalid and not sent to a name server. */
    result = connect_to("no..name", "1883");
    CHECK(result == TW_NAME_NOT_FOUND, "%s", tw_error_name(result));
}

static void a_server_that_closes_the_connection_is_not_a_broker(void) {
    tw_client_config config = tw_client_defaults();
    int listener = listen_anywhere();
    memset(events, 0, sizeof events);
    config.connect.client_id = tw_str("c");
    config.receive = tw_lend(receive_memory, sizeof receive_memory);
    config.transmit = tw_lend(transmit_memory, sizeof transmit_memory);
    transport = tw_tcp_transport(&tcp, "127.0.0.1", port);
    CHECK(tw_link_init(&link_, &config, transport, on_event, NULL) == 0, "init");
    while (!tcp.is_open) {
        CHECK(tw_link_step(&link_, 10) == 0 && events[TW_EVENT_CLOSED] == 0, "open");
    }
    close(accept(listener, NULL, NULL));
    close(listener);
    CHECK(tw_link_connect(&link_, LONG_MS) == TW_HANDSHAKE_FAILED, "the attempt under way is the one that counts");
}

static void a_child_process_does_not_inherit_the_socket(void) {
    connect_by(NULL);
    CHECK((fcntl(tcp.fd, F_GETFD) & FD_CLOEXEC) != 0, "it stays open in another program");
    close_all();
}

#ifdef __linux__
static struct addrinfo *address_of_port(void) {
    struct addrinfo hints, *found = NULL;
    memset(&hints, 0, sizeof hints);
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    CHECK(getaddrinfo("127.0.0.1", port, &hints, &found) == 0, "an address");
    return found;
}

/* Like IPv6 with lost packets: Linux drops SYNs to a listener with a full queue. */
static void an_unresponsive_address_is_followed_by_the_next(void) {
    int deaf = listen_with(0), first = socket(AF_INET, SOCK_STREAM, 0), listener;
    struct addrinfo *addresses = address_of_port();
    uint32_t start_ms;
    tw_result result;
    CHECK(connect(first, addresses->ai_addr, addresses->ai_addrlen) == 0, "the queue is full");
    listener = listen_anywhere();
    addresses->ai_next = address_of_port();
    transport = tw_tcp_transport(&tcp, "two.example", port);
    tcp.addresses = addresses;
    tcp.address = addresses;
    CHECK(transport.open(transport.context) == 0, "no answer");
    tcp.since_ms -= TW_TCP_ADDRESS_MS - 100;
    start_ms = now_ms();
    while ((result = transport.open(transport.context)) == 0 && now_ms() - start_ms < LONG_MS) {
        transport.wait(transport.context, false, true, LONG_MS);
    }
    CHECK(result == 1 && now_ms() - start_ms < LONG_MS / 2, "%d after %u ms", (int)result, now_ms() - start_ms);
    transport.close(transport.context);
    close(first);
    close(deaf);
    close(listener);
}
#endif

int main(void) {
    invalid_addresses_are_reported();
    a_server_that_closes_the_connection_is_not_a_broker();
    a_timeout_is_respected_on_a_busy_connection();
    a_step_without_a_timeout_does_not_wait();
    sending_does_not_wait();
    a_signal_ends_a_wait();
    a_closed_connection_is_detected();
    a_socket_shared_with_another_reader_never_blocks();
    a_child_process_does_not_inherit_the_socket();
#ifdef __linux__
    an_unresponsive_address_is_followed_by_the_next();
#endif
    return finish("tcp");
}
