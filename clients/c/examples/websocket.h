/*
 * WebSocket (RFC 6455) as the transport of a link, on top of another transport: TCP for ws://, TLS for wss://. It does not
 * allocate.
 */
#ifndef WEBSOCKET_H
#define WEBSOCKET_H

#include "tautwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The maximum size of a sent frame, and of the header of the server's response. */
#define WEBSOCKET_OUT_BYTES 1024u
#define WEBSOCKET_ANSWER_BYTES 1024u
#define WEBSOCKET_CONTROL_BYTES 125u

/** Fills `len` bytes at `to` with unpredictable bytes. Returns 0, or a negative value on failure. */
typedef tw_result (*websocket_random)(void *context, uint8_t *to, size_t len);

/** The configuration of a connection. It must outlive the websocket. */
typedef struct websocket_config {
    tw_transport under;
    /** The Host header, such as "broker.example:8080", and the path, such as "/mqtt". */
    const char *host;
    const char *path;
    /** More headers, each with "\r\n" at its end, or NULL. */
    const char *headers;
    websocket_random random;
    void *context;
} websocket_config;

/** All fields are private except `status`: the HTTP status of the last attempt, such as 404; 0 if there was no HTTP response. */
typedef struct websocket {
    websocket_config config;
    int status;
    bool has_asked, is_open, wants_pong;
    uint8_t out[WEBSOCKET_OUT_BYTES];
    size_t out_len, out_sent;
    char answer[WEBSOCKET_ANSWER_BYTES];
    size_t answer_len;
    uint8_t key[16];
    uint8_t head[10];
    size_t head_len;
    uint64_t left;
    unsigned opcode;
    uint8_t control[WEBSOCKET_CONTROL_BYTES];
    size_t control_len;
} websocket;

/** Initialises `socket` and returns its transport. */
tw_transport websocket_transport(websocket *socket, const websocket_config *config);

#ifdef __cplusplus
}
#endif

#endif
