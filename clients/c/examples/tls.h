/*
 * TLS behind the transport of a link. tls_openssl.c and tls_mbedtls.c implement it; take the one whose library you have.
 *
 * Allocates what its library allocates: some ten kilobytes for a connection.
 */
#ifndef TLS_H
#define TLS_H

#include "tautwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Files in PEM, and names. They must outlive the tls. */
typedef struct tls_config {
    const char *host;
    const char *port;
    /** The name that the server is asked for (SNI) and that its certificate must have. NULL for `host`. */
    const char *server_name;
    /** The authorities to trust. */
    const char *ca_file;
    /** The certificate of this client and its key, or NULL. */
    const char *certificate_file;
    const char *key_file;
    /** A list of revoked certificates for each authority of the server's certificate, or NULL. */
    const char *revoked_file;
    /** A protocol to ask for by ALPN, such as "mqtt", or NULL. */
    const char *alpn;
} tls_config;

typedef struct tls tls;

/** Reads the files. Answers NULL if something is wrong with them; `message` says what. */
tls *tls_new(const tls_config *config, char *message, size_t size);

/** Opens TCP and then TLS, each time that the link connects. The link reports why that failed, such as TW_TLS_EXPIRED. */
tw_transport tls_transport(tls *connection);

/** What went wrong last with TLS, what to do, and what it was in this case, with a code at its end. Empty if nothing has. */
const char *tls_error(const tls *connection);

/** After the link has been disconnected or cut. */
void tls_free(tls *connection);

#ifdef __cplusplus
}
#endif

#endif
