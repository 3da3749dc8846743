/*
 * The skeleton of a firmware: only layer 2, on a serial line to a modem with a TCP connection. Here the line is
 * simulated, with a server that accepts the client and acknowledges; on a board, put your driver into the four functions
 * of "The board". All memory is static and known at build time.
 */
#include <stdio.h>

#include "tautwire.h"

/* The board. */

#define UART_RING_BYTES 64u

/* Filled by the receive interrupt on a board, by the simulated server here. */
static struct {
    uint8_t bytes[UART_RING_BYTES];
    volatile uint8_t head, tail;
} uart;

static uint32_t ticks_ms;

static bool uart_take(uint8_t *byte) {
    if (uart.head == uart.tail) {
        return false;
    }
    *byte = uart.bytes[uart.tail];
    uart.tail = (uint8_t)((uart.tail + 1u) % UART_RING_BYTES);
    return true;
}

static void uart_interrupt(uint8_t byte) {
    uart.bytes[uart.head] = byte;
    uart.head = (uint8_t)((uart.head + 1u) % UART_RING_BYTES);
}

static void serve(uint8_t byte);

/* Accepts one byte if the transmitter is free. This one is free two times out of three. */
static bool uart_put(uint8_t byte) {
    static unsigned turn;
    if (++turn % 3 == 0) {
        return false;
    }
    serve(byte);
    return true;
}

static int board_temperature(void) {
    return 215;
}

/* The program. */

static uint8_t receive[128], transmit[96], outbox[160];
static tw_client client;
static unsigned delivered;

static void set_up(void) {
    tw_client_config config = tw_client_defaults();
    config.connect.version = TW_V3_1_1;
    config.connect.client_id = tw_str("board-7");
    config.receive = tw_lend(receive, sizeof receive);
    config.transmit = tw_lend(transmit, sizeof transmit);
    config.outbox = tw_lend(outbox, sizeof outbox);
    /* No memory for incoming QoS 2: this program has no subscriptions. */
    if (tw_client_init(&client, &config) != 0 || tw_client_open(&client, ticks_ms) != 0) {
        for (;;) {
            /* An invalid configuration, found at the first start during development. */
        }
    }
}

static void handle(const tw_event *event) {
    if (event->type == TW_EVENT_PUBLISHED) {
        delivered++;
    } else if (event->type == TW_EVENT_CLOSED) {
        /* Hang up and dial again here; unacknowledged messages are kept. */
        tw_client_close(&client);
        (void)tw_client_open(&client, ticks_ms);
    }
}

/* One turn of the main loop. It never blocks. */
static void turn(void) {
    tw_memory space = tw_client_space(&client);
    tw_bytes output;
    tw_event event;
    size_t count = 0;
    while (count < space.size && uart_take(&space.data[count])) {
        count++;
    }
    tw_client_received(&client, count);
    while (tw_client_next(&client, ticks_ms, &event)) {
        handle(&event);
    }
    output = tw_client_output(&client);
    for (count = 0; count < output.len && uart_put(output.data[count]); count++) {
    }
    tw_client_sent(&client, count);
}

static void report(void) {
    char text[8];
    int t = board_temperature();
    tw_publish message;
    text[0] = (char)('0' + t / 100);
    text[1] = (char)('0' + t / 10 % 10);
    text[2] = '.';
    text[3] = (char)('0' + t % 10);
    message = tw_message(tw_str("boards/7/temperature"), tw_view(text, 4), TW_AT_LEAST_ONCE);
    /* TW_OUTBOX_FULL: the line has been down for long. The next reading will be newer anyway. */
    (void)tw_client_publish(&client, &message, NULL);
}

int main(void) {
    set_up();
    while (ticks_ms < 10000) {
        if (ticks_ms % 1000 == 0) {
            report();
        }
        turn();
        ticks_ms++;
    }
    printf("%u readings delivered\n", delivered);
    return delivered == 10 ? 0 : 1;
}

/* The simulated server. */

static void answer(uint8_t first, uint8_t a, uint8_t b) {
    uart_interrupt(first);
    uart_interrupt(2);
    uart_interrupt(a);
    uart_interrupt(b);
}

static void serve(uint8_t byte) {
    static uint8_t bytes[128];
    static size_t len;
    tw_packet packet;
    tw_result used;
    bytes[len++] = byte;
    used = tw_decode(bytes, len, TW_V3_1_1, sizeof bytes, &packet);
    if (used == TW_INCOMPLETE) {
        return;
    }
    if (used > 0 && packet.type == TW_CONNECT) {
        answer(0x20, 0, 0);
    } else if (used > 0 && packet.type == TW_PUBLISH) {
        answer(0x40, (uint8_t)(packet.as.publish.packet_id >> 8), (uint8_t)packet.as.publish.packet_id);
    }
    len = 0;
}
