/*
 * tls.h with mbedTLS 2.28 and 3.
 *
 * mbedTLS before 3.5 does not support IP addresses in certificates: connect by a name, or set one. If `revoked_file` has no list of
 * an authority, none of its certificates counts as revoked.
 */
#include "tls.h"

#include <stdio.h>
#include <stdlib.h>

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/ssl.h>
#include <mbedtls/version.h>
#include <mbedtls/x509_crt.h>

#if MBEDTLS_VERSION_MAJOR >= 3
#include <psa/crypto.h>
#define WITH_RANDOM(t) , mbedtls_ctr_drbg_random, &(t)->random
#else
#define MBEDTLS_PRIVATE(field) field
#define WITH_RANDOM(t)
#endif

struct tls {
    tls_config config;
    tw_tcp tcp;
    tw_transport under;
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    mbedtls_x509_crt authorities;
    mbedtls_x509_crl revoked;
    mbedtls_x509_crt certificate;
    mbedtls_pk_context key;
    mbedtls_ssl_config settings;
    mbedtls_ssl_context ssl;
    const char *protocols[2];
    bool has_begun, is_open, wants_to_write, is_refused;
    /* The number of bytes that mbedTLS could not send at once: it must get the same bytes again. */
    size_t unsent;
    tw_result code;
    char error[600];
};

/* Sets the error: its text and, unless it is empty, the detail. */
static void say(tls *t, tw_error code, const char *detail) {
    t->code = code;
    if (detail[0] == '\0') {
        snprintf(t->error, sizeof t->error, "%s [%s]", tw_error_text(code), tw_error_name(code));
    } else {
        snprintf(t->error, sizeof t->error, "%s (%s) [%s]", tw_error_text(code), detail, tw_error_name(code));
    }
}

static void say_day(tls *t, tw_error code, const char *text, const mbedtls_x509_time *time) {
    char detail[100];
    snprintf(detail, sizeof detail, "%s %04d-%02d-%02d", text, time->year, time->mon, time->day);
    say(t, code, detail);
}

static const char *name_of(const tls *t) {
    return t->config.server_name != NULL ? t->config.server_name : t->config.host;
}

/* Lists the names of a certificate, as far as there is room. */
static void list_names(const mbedtls_x509_crt *certificate, char *to, size_t size) {
    const mbedtls_x509_sequence *at;
    to[0] = '\0';
    for (at = &certificate->subject_alt_names; at != NULL; at = at->next) {
        int kind = at->buf.tag & MBEDTLS_ASN1_TAG_VALUE_MASK;
        size_t used = strlen(to);
        if (kind == MBEDTLS_X509_SAN_DNS_NAME && at->buf.len < size) {
            snprintf(to + used, size - used, "%s%.*s", used == 0 ? "" : ", ", (int)at->buf.len, (const char *)at->buf.p);
        }
    }
}

/* Receives the verification result of a certificate. mbedTLS still refuses an invalid one. */
static int on_verified(void *context, mbedtls_x509_crt *certificate, int depth, uint32_t *flags) {
    tls *t = (tls *)context;
    char detail[300], names[150];
    bool is_own = certificate->issuer_raw.len == certificate->subject_raw.len &&
                  memcmp(certificate->issuer_raw.p, certificate->subject_raw.p, certificate->issuer_raw.len) == 0;
    if (*flags == 0) {
        return 0;
    }
    t->is_refused = true;
    if (*flags & MBEDTLS_X509_BADCERT_REVOKED) {
        say(t, TW_TLS_REVOKED, "it has been revoked");
    } else if (*flags & (MBEDTLS_X509_BADCRL_EXPIRED | MBEDTLS_X509_BADCRL_NOT_TRUSTED | MBEDTLS_X509_BADCRL_FUTURE)) {
        say(t, TW_TLS_REVOKED, "there is no valid revocation list");
    } else if (*flags & MBEDTLS_X509_BADCERT_EXPIRED) {
        say_day(t, TW_TLS_EXPIRED, "it expired on", &certificate->valid_to);
    } else if (*flags & MBEDTLS_X509_BADCERT_FUTURE) {
        say_day(t, TW_TLS_NOT_YET_VALID, "it is valid from", &certificate->valid_from);
    } else if ((*flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) && is_own && depth == 0) {
        say(t, TW_TLS_SELF_SIGNED, "");
    } else if (*flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) {
        say(t, TW_TLS_UNKNOWN_AUTHORITY, "");
    } else if (*flags & MBEDTLS_X509_BADCERT_CN_MISMATCH) {
        list_names(certificate, names, sizeof names);
        snprintf(detail, sizeof detail, "it is for %s, not for %.100s", names[0] == '\0' ? "no name" : names, name_of(t));
        say(t, TW_TLS_NAME_MISMATCH, detail);
    } else {
        (void)mbedtls_x509_crt_verify_info(detail, sizeof detail, "", *flags);
        detail[strcspn(detail, "\n")] = '\0';
        say(t, TW_TLS_CERTIFICATE, detail);
    }
    return 0;
}

/* Explains an alert of the server: the second byte of the last record. */
static void explain_alert(tls *t) {
    unsigned alert = t->ssl.MBEDTLS_PRIVATE(in_msg)[1];
    char detail[40];
    switch (alert) {
    case 116: /* certificate_required */
        say(t, TW_TLS_CLIENT_CERTIFICATE_REQUIRED, "");
        break;
    case MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED:
        say(t, TW_TLS_CLIENT_CERTIFICATE_REFUSED, "it has been revoked");
        break;
    case MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED:
        say(t, TW_TLS_CLIENT_CERTIFICATE_REFUSED, "it has expired, or is not valid yet");
        break;
    case MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA:
        say(t, TW_TLS_CLIENT_CERTIFICATE_REFUSED, "the server does not trust the authority that issued it");
        break;
    case MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT:
        say(t, TW_TLS_CLIENT_CERTIFICATE_REFUSED, "it is not a client certificate");
        break;
    case MBEDTLS_SSL_ALERT_MSG_BAD_CERT:
    case MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN:
    case MBEDTLS_SSL_ALERT_MSG_ACCESS_DENIED:
        say(t, TW_TLS_CLIENT_CERTIFICATE_REFUSED, "see the server's log");
        break;
    case MBEDTLS_SSL_ALERT_MSG_NO_APPLICATION_PROTOCOL:
        say(t, TW_TLS_NO_SHARED_PARAMETERS, "the server does not support the requested ALPN protocol");
        break;
    case MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION:
    case MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE:
    case MBEDTLS_SSL_ALERT_MSG_INSUFFICIENT_SECURITY:
        say(t, TW_TLS_NO_SHARED_PARAMETERS, "");
        break;
    default:
        snprintf(detail, sizeof detail, "the server sent the alert %u", alert);
        say(t, t->is_open ? TW_CONNECTION_LOST : TW_HANDSHAKE_FAILED, detail);
        break;
    }
}

/* Returns 0 if the call must be repeated later, otherwise the error: -1 if the connection has just ended. */
static tw_result failed(tls *t, int result) {
    char text[150];
    t->wants_to_write = result == MBEDTLS_ERR_SSL_WANT_WRITE;
    if (result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE) {
        return 0;
    }
    if (!t->is_refused) {
        t->code = -1;
    }
    if (t->is_refused) {
        /* The error is already set. */
    } else if (result == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE) {
        explain_alert(t);
    } else if (result == MBEDTLS_ERR_SSL_INVALID_RECORD && !t->is_open) {
        say(t, TW_TLS_NOT_SUPPORTED, "");
    } else if (!t->is_open && result == MBEDTLS_ERR_SSL_CONN_EOF) {
        say(t, TW_TLS_CLOSED, "");
    } else if (result != 0 && result != MBEDTLS_ERR_SSL_CONN_EOF && result != MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY) {
        mbedtls_strerror(result, text, sizeof text);
        say(t, t->is_open ? TW_CONNECTION_LOST : TW_HANDSHAKE_FAILED, text);
    }
    return t->code;
}

/* Socket callbacks of mbedTLS. */
static int socket_recv(void *context, unsigned char *to, size_t size) {
    tls *t = (tls *)context;
    tw_result count = t->under.recv(t->under.context, to, size);
    return count > 0 ? (int)count : count == 0 ? MBEDTLS_ERR_SSL_WANT_READ : MBEDTLS_ERR_SSL_CONN_EOF;
}

static int socket_send(void *context, const unsigned char *bytes, size_t len) {
    tls *t = (tls *)context;
    tw_result count = t->under.send(t->under.context, bytes, len);
    return count > 0 ? (int)count : count == 0 ? MBEDTLS_ERR_SSL_WANT_WRITE : MBEDTLS_ERR_SSL_CONN_EOF;
}

static tw_result tls_recv(void *context, uint8_t *to, size_t size) {
    tls *t = (tls *)context;
    int count = mbedtls_ssl_read(&t->ssl, to, size);
    return count > 0 ? (tw_result)count : failed(t, count);
}

static tw_result tls_send(void *context, const uint8_t *bytes, size_t len) {
    tls *t = (tls *)context;
    int count = mbedtls_ssl_write(&t->ssl, bytes, t->unsent != 0 ? t->unsent : len);
    bool is_for_later = count == MBEDTLS_ERR_SSL_WANT_READ || count == MBEDTLS_ERR_SSL_WANT_WRITE;
    if (is_for_later && t->unsent == 0) {
        t->unsent = len;
    } else if (!is_for_later) {
        t->unsent = 0;
    }
    return count > 0 ? (tw_result)count : failed(t, count);
}

static tw_result tls_open(void *context) {
    tls *t = (tls *)context;
    tw_result result = t->under.open(t->under.context);
    int shaken;
    if (result <= 0) {
        return result;
    }
    if (!t->has_begun) {
        t->has_begun = true;
        t->is_refused = false;
        if (mbedtls_ssl_setup(&t->ssl, &t->settings) != 0 || mbedtls_ssl_set_hostname(&t->ssl, name_of(t)) != 0) {
            say(t, TW_TLS_OPTIONS, "mbedTLS cannot be initialised for this name");
            return t->code;
        }
        mbedtls_ssl_set_bio(&t->ssl, t, socket_send, socket_recv, NULL);
    }
    shaken = mbedtls_ssl_handshake(&t->ssl);
    if (shaken != 0) {
        return failed(t, shaken);
    }
    t->is_open = true;
    t->error[0] = '\0';
    return 1;
}

static void tls_wait(void *context, bool to_receive, bool to_send, uint32_t timeout_ms) {
    tls *t = (tls *)context;
    /* Decrypted or buffered data is no longer in the socket. */
    bool is_there = to_receive && t->is_open && mbedtls_ssl_check_pending(&t->ssl) != 0;
    bool shakes_hands = t->has_begun && !t->is_open;
    if (!is_there) {
        t->under.wait(t->under.context, to_receive || shakes_hands, shakes_hands ? t->wants_to_write : to_send, timeout_ms);
    }
}

static void tls_close(void *context) {
    tls *t = (tls *)context;
    if (t->is_open) {
        /* Sends close_notify without waiting for the answer. */
        (void)mbedtls_ssl_close_notify(&t->ssl);
    }
    mbedtls_ssl_free(&t->ssl);
    mbedtls_ssl_init(&t->ssl);
    t->has_begun = false;
    t->is_open = false;
    t->unsent = 0;
    t->under.close(t->under.context);
}

static uint32_t tls_now_ms(void *context) {
    tls *t = (tls *)context;
    return t->under.now_ms(t->under.context);
}

/* Returns what is wrong with the settings, or NULL. */
static const char *set_up(tls *t) {
    static const unsigned char purpose[] = "tautwire";
    const tls_config *config = &t->config;
#if MBEDTLS_VERSION_MAJOR >= 3
    if (psa_crypto_init() != PSA_SUCCESS) {
        return "mbedTLS cannot be initialised";
    }
#endif
    if (mbedtls_ctr_drbg_seed(&t->random, mbedtls_entropy_func, &t->entropy, purpose, sizeof purpose - 1) != 0 ||
        mbedtls_ssl_config_defaults(&t->settings, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
        return "mbedTLS cannot be initialised";
    }
    mbedtls_ssl_conf_rng(&t->settings, mbedtls_ctr_drbg_random, &t->random);
    mbedtls_ssl_conf_authmode(&t->settings, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_verify(&t->settings, on_verified, t);
#if MBEDTLS_VERSION_MAJOR < 3
    mbedtls_ssl_conf_min_version(&t->settings, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
#endif
    if (mbedtls_x509_crt_parse_file(&t->authorities, config->ca_file) != 0) {
        return "ca_file contains no PEM certificate";
    }
    if (config->revoked_file != NULL && mbedtls_x509_crl_parse_file(&t->revoked, config->revoked_file) != 0) {
        return "revoked_file contains no PEM revocation list";
    }
    mbedtls_ssl_conf_ca_chain(&t->settings, &t->authorities, config->revoked_file != NULL ? &t->revoked : NULL);
    if (config->certificate_file != NULL) {
        if (mbedtls_x509_crt_parse_file(&t->certificate, config->certificate_file) != 0) {
            return "certificate_file contains no PEM certificate";
        }
        if (config->key_file == NULL || mbedtls_pk_parse_keyfile(&t->key, config->key_file, NULL WITH_RANDOM(t)) != 0 ||
            mbedtls_pk_check_pair(&t->certificate.pk, &t->key WITH_RANDOM(t)) != 0 ||
            mbedtls_ssl_conf_own_cert(&t->settings, &t->certificate, &t->key) != 0) {
            return "the private key does not match the client certificate";
        }
    }
    if (config->alpn != NULL) {
        t->protocols[0] = config->alpn;
        if (mbedtls_ssl_conf_alpn_protocols(&t->settings, t->protocols) != 0) {
            return "the ALPN protocol cannot be set";
        }
    }
    return NULL;
}

tls *tls_new(const tls_config *config, char *message, size_t size) {
    tls *t = (tls *)calloc(1, sizeof *t);
    const char *wrong;
    if (t == NULL) {
        snprintf(message, size, "out of memory");
        return NULL;
    }
    t->config = *config;
    t->under = tw_tcp_transport(&t->tcp, config->host, config->port);
    mbedtls_entropy_init(&t->entropy);
    mbedtls_ctr_drbg_init(&t->random);
    mbedtls_x509_crt_init(&t->authorities);
    mbedtls_x509_crl_init(&t->revoked);
    mbedtls_x509_crt_init(&t->certificate);
    mbedtls_pk_init(&t->key);
    mbedtls_ssl_config_init(&t->settings);
    mbedtls_ssl_init(&t->ssl);
    wrong = set_up(t);
    if (wrong != NULL) {
        say(t, TW_TLS_OPTIONS, wrong);
        snprintf(message, size, "%s", t->error);
        tls_free(t);
        return NULL;
    }
    return t;
}

tw_transport tls_transport(tls *t) {
    tw_transport transport;
    transport.recv = tls_recv;
    transport.send = tls_send;
    transport.now_ms = tls_now_ms;
    transport.open = tls_open;
    transport.wait = tls_wait;
    transport.close = tls_close;
    transport.context = t;
    return transport;
}

const char *tls_error(const tls *t) {
    return t->error;
}

void tls_free(tls *t) {
    tls_close(t);
    mbedtls_ssl_free(&t->ssl);
    mbedtls_ssl_config_free(&t->settings);
    mbedtls_pk_free(&t->key);
    mbedtls_x509_crt_free(&t->certificate);
    mbedtls_x509_crl_free(&t->revoked);
    mbedtls_x509_crt_free(&t->authorities);
    mbedtls_ctr_drbg_free(&t->random);
    mbedtls_entropy_free(&t->entropy);
    free(t);
}
