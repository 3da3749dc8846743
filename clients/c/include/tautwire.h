/*
 * Tautwire for C99: MQTT 5.0 and 3.1.1. No allocation, no global state, no dependencies.
 *
 *   layer 1  codec    tw_encode(), tw_decode()      packets from and to bytes
 *   layer 2  client   tw_client_…                   one session; bytes and time go in, bytes and events come out
 *   layer 3  link     tw_link_…, tw_tcp             a client on a transport: blocking helpers, reconnection, TCP
 *
 * Each layer works without those above it. Licence: MIT OR Apache-2.0.
 */
#ifndef TAUTWIRE_H
#define TAUTWIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The version of this library, and a number for comparison: 10203 is 1.2.3. */
#define TW_VERSION_MAJOR 0
#define TW_VERSION_MINOR 1
#define TW_VERSION_PATCH 0
#define TW_VERSION "0.1.0"
#define TW_VERSION_NUMBER (TW_VERSION_MAJOR * 10000 + TW_VERSION_MINOR * 100 + TW_VERSION_PATCH)

/* Whether tw_error_name() includes the names of errors. Define it as 0 to save 2.1 KB. */
#ifndef TW_NAMES
#define TW_NAMES 1
#endif

/* Whether tw_error_text() includes texts for people: by default if there is an operating system. They take 9 KB. */
#ifndef TW_TEXTS
#if defined(__unix__) || defined(__APPLE__) || defined(_WIN32)
#define TW_TEXTS 1
#else
#define TW_TEXTS 0
#endif
#endif

/* Whether subscriptions are stored (tw_client_config.subscriptions). Define it as 0 to omit that. */
#ifndef TW_SUBSCRIPTIONS
#define TW_SUBSCRIPTIONS 1
#endif

/* Whether a client can have a store (tw_client_config.store). Define it as 0 to omit that. */
#ifndef TW_STORE
#define TW_STORE 1
#endif

/* Whether requests and responses (tautwire/requests.h) are included. Define it as 0 to omit them. */
#ifndef TW_REQUESTS
#define TW_REQUESTS 1
#endif

/* Whether SCRAM is included: 0, 256 for SCRAM-SHA-256, 512 for SCRAM-SHA-512, too. */
#ifndef TW_SCRAM
#define TW_SCRAM 0
#endif

/* Whether layer 3 is included. Define it as 0 to omit it. */
#ifndef TW_LINK
#define TW_LINK 1
#endif

/* Whether TCP on POSIX is included. Define it as 0 or 1 to override the default. */
#ifndef TW_POSIX
#if TW_LINK && (defined(__unix__) || defined(__APPLE__))
#define TW_POSIX 1
#else
#define TW_POSIX 0
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#include "tautwire/types.h"

#include "tautwire/codec.h"

#include "tautwire/store.h"

#include "tautwire/client.h"

#if TW_SCRAM
#include "tautwire/scram.h"
#endif

#if TW_REQUESTS
#include "tautwire/requests.h"
#endif

#if TW_LINK
#include "tautwire/link.h"
#endif

#if TW_POSIX
#include "tautwire/tcp.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
