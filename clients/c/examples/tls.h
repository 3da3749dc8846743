/*
 * TLS as the transport of a link. tls_openssl.c and tls_mbedtls.c implement it; use the one for your library.
 *
 * Its library allocates memory: some ten kilobytes per connection.
 */
#ifndef TLS_H
#define TLS_H

#include "tautwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/** PEM files, and names. They must outlive the tls. */
typedef struct tls_config {
    const char *host;
    const char *port;
    /** The name that is sent to the server (SNI) and that its certificate must have. NULL for `host`. */
    const char *server_name;
    /** The trusted authorities. */
    const char *ca_file;
    /** The certificate of this client and its key, or NULL. */
    const char *certificate_file;
    const char *key_file;
    /** A revocation list for each authority of the server's certificate, or NULL. */
    const char *revoked_file;
    /** The protocol to request by ALPN, such as "mqtt", or NULL. */
    const char *alpn;
} tls_config;

typedef struct tls tls;

/** Reads the files. Returns NULL if they are invalid; `message` says why. */
tls *tls_new(const tls_config *config, char *message, size_t size);

/** Opens TCP and then TLS, each time that the link connects. The link reports failures, such as TW_TLS_EXPIRED. */
tw_transport tls_transport(tls *connection);

/** The last TLS error: what failed, what to do, the details, and a code at its end. Empty if there was none. */
const char *tls_error(const tls *connection);

/** Call it after the link has been disconnected or cut. */
void tls_free(tls *connection);

#ifdef __cplusplus
}
#endif

#endif
