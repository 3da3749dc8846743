/* tls.h with OpenSSL 1.1.1 and later. */
#include "tls.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct tls {
    tls_config config;
    tw_tcp tcp;
    tw_transport under;
    SSL_CTX *context;
    SSL *ssl;
    bool wants_to_write;
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

static const char *name_of(const tls *t) {
    return t->config.server_name != NULL ? t->config.server_name : t->config.host;
}

/* Lists the names of a certificate, as far as there is room. */
static void list_names(const X509 *certificate, char *to, size_t size) {
    GENERAL_NAMES *names = (GENERAL_NAMES *)X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    int at;
    to[0] = '\0';
    for (at = 0; at < sk_GENERAL_NAME_num(names); at++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, at);
        size_t used = strlen(to);
        if (name->type == GEN_DNS) {
            snprintf(to + used, size - used, "%s%.*s", used == 0 ? "" : ", ", ASN1_STRING_length(name->d.dNSName),
                     (const char *)ASN1_STRING_get0_data(name->d.dNSName));
        } else if (name->type == GEN_IPADD && ASN1_STRING_length(name->d.iPAddress) == 4) {
            const unsigned char *a = ASN1_STRING_get0_data(name->d.iPAddress);
            snprintf(to + used, size - used, "%s%d.%d.%d.%d", used == 0 ? "" : ", ", a[0], a[1], a[2], a[3]);
        }
    }
    GENERAL_NAMES_free(names);
}

static void say_day(tls *t, tw_error code, const char *text, const ASN1_TIME *time) {
    char detail[100] = "";
    struct tm moment;
    if (ASN1_TIME_to_tm(time, &moment) == 1) {
        snprintf(detail, sizeof detail, "%s %04d-%02d-%02d", text, moment.tm_year + 1900, moment.tm_mon + 1, moment.tm_mday);
    }
    say(t, code, detail);
}

/* Explains what is wrong with the server's certificate. */
static void explain_certificate(tls *t, int verdict, const X509 *certificate) {
    char names[200], detail[350];
    switch (verdict) {
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: say(t, TW_TLS_SELF_SIGNED, ""); break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE: say(t, TW_TLS_UNKNOWN_AUTHORITY, ""); break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        list_names(certificate, names, sizeof names);
        snprintf(detail, sizeof detail, "it is for %.150s, not for %.100s", names[0] == '\0' ? "no name" : names,
                 name_of(t));
        say(t, TW_TLS_NAME_MISMATCH, detail);
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED: say_day(t, TW_TLS_EXPIRED, "it expired on", X509_get0_notAfter(certificate)); break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        say_day(t, TW_TLS_NOT_YET_VALID, "it is valid from", X509_get0_notBefore(certificate));
        break;
    case X509_V_ERR_CERT_REVOKED: say(t, TW_TLS_REVOKED, "it has been revoked"); break;
    case X509_V_ERR_UNABLE_TO_GET_CRL:
    case X509_V_ERR_CRL_HAS_EXPIRED: say(t, TW_TLS_REVOKED, "there is no valid revocation list"); break;
    default: say(t, TW_TLS_CERTIFICATE, X509_verify_cert_error_string(verdict)); break;
    }
}

/* Receives OpenSSL's verification result of a certificate; later the details of an invalid one are no longer
   available. */
static int on_verified(int is_good, X509_STORE_CTX *store) {
    const SSL *ssl = (const SSL *)X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    tls *t = (tls *)SSL_get_app_data(ssl);
    if (is_good == 0) {
        explain_certificate(t, X509_STORE_CTX_get_error(store), X509_STORE_CTX_get_current_cert(store));
    }
    return is_good;
}

/* Explains an alert of the server. OpenSSL's reasons for alerts are their numbers plus 1000. */
static bool explain_alert(tls *t, int reason) {
    switch (reason) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        say(t, TW_TLS_CLIENT_CERTIFICATE_REQUIRED, "");
        return true;
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        say(t, TW_TLS_CLIENT_CERTIFICATE_REFUSED, "it has been revoked");
        return true;
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        say(t, TW_TLS_CLIENT_CERTIFICATE_REFUSED, "it has expired, or is not valid yet");
        return true;
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        say(t, TW_TLS_CLIENT_CERTIFICATE_REFUSED, "the server does not trust the authority that issued it");
        return true;
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
        say(t, TW_TLS_CLIENT_CERTIFICATE_REFUSED, "it is not a client certificate");
        return true;
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        say(t, TW_TLS_CLIENT_CERTIFICATE_REFUSED, "see the server's log");
        return true;
    case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
        say(t, TW_TLS_NO_SHARED_PARAMETERS, "the server does not support the requested ALPN protocol");
        return true;
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_TLSV1_ALERT_INSUFFICIENT_SECURITY:
    case SSL_R_UNSUPPORTED_PROTOCOL:
        say(t, TW_TLS_NO_SHARED_PARAMETERS, "");
        return true;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        say(t, TW_TLS_NOT_SUPPORTED, "");
        return true;
    default: return false;
    }
}

/* Returns 0 if the call must be repeated later, otherwise the error: -1 if the connection has just ended. */
static tw_result failed(tls *t, int result) {
    unsigned long error = ERR_peek_error();
    int kind = SSL_get_error(t->ssl, result);
    bool is_over = kind != SSL_ERROR_WANT_READ && kind != SSL_ERROR_WANT_WRITE;
    char detail[150];
    t->wants_to_write = kind == SSL_ERROR_WANT_WRITE;
    if (is_over) {
        bool is_refused = SSL_get_verify_result(t->ssl) != X509_V_OK;
        if (!is_refused) {
            t->code = -1;
        }
        if (is_refused || explain_alert(t, ERR_GET_REASON(error))) {
            /* The error is already set. */
        } else if (!SSL_is_init_finished(t->ssl)) {
            say(t, TW_TLS_CLOSED, "");
        } else if (error != 0 && kind == SSL_ERROR_SSL) {
            ERR_error_string_n(error, detail, sizeof detail);
            say(t, TW_CONNECTION_LOST, detail);
        }
    }
    ERR_clear_error();
    return is_over ? t->code : 0;
}

static int at_most(size_t size) {
    return size < INT_MAX ? (int)size : INT_MAX;
}

static tw_result tls_recv(void *context, uint8_t *to, size_t size) {
    tls *t = (tls *)context;
    int count;
    ERR_clear_error();
    count = SSL_read(t->ssl, to, at_most(size));
    return count > 0 ? (tw_result)count : failed(t, count);
}

static tw_result tls_send(void *context, const uint8_t *bytes, size_t len) {
    tls *t = (tls *)context;
    int count;
    if (len == 0) {
        return 0;
    }
    ERR_clear_error();
    count = SSL_write(t->ssl, bytes, at_most(len));
    return count > 0 ? (tw_result)count : failed(t, count);
}

static tw_result begin(tls *t) {
    const char *name = name_of(t);
    X509_VERIFY_PARAM *checks;
    t->ssl = SSL_new(t->context);
    if (t->ssl == NULL || SSL_set_fd(t->ssl, t->tcp.fd) != 1) {
        return -1;
    }
    SSL_set_app_data(t->ssl, t);
    checks = SSL_get0_param(t->ssl);
    X509_VERIFY_PARAM_set_hostflags(checks, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    /* IP addresses are not sent by SNI. */
    if (X509_VERIFY_PARAM_set1_ip_asc(checks, name) != 1 &&
        (SSL_set_tlsext_host_name(t->ssl, name) != 1 || X509_VERIFY_PARAM_set1_host(checks, name, 0) != 1)) {
        say(t, TW_TLS_OPTIONS, "the server name is not valid in a certificate");
        return t->code;
    }
    return 1;
}

static tw_result tls_open(void *context) {
    tls *t = (tls *)context;
    tw_result result = t->under.open(t->under.context);
    int connected;
    if (result <= 0) {
        return result;
    }
    if (t->ssl == NULL && (result = begin(t)) < 0) {
        return result;
    }
    ERR_clear_error();
    connected = SSL_connect(t->ssl);
    if (connected != 1) {
        return failed(t, connected);
    }
    t->error[0] = '\0';
    return 1;
}

static void tls_wait(void *context, bool to_receive, bool to_send, uint32_t timeout_ms) {
    tls *t = (tls *)context;
    /* Decrypted data is no longer in the socket. */
    bool is_there = to_receive && t->ssl != NULL && SSL_pending(t->ssl) > 0;
    /* A handshake may have to read in order to send, and the other way round. */
    bool shakes_hands = t->ssl != NULL && !SSL_is_init_finished(t->ssl);
    if (!is_there) {
        t->under.wait(t->under.context, to_receive || shakes_hands, shakes_hands ? t->wants_to_write : to_send, timeout_ms);
    }
}

static void tls_close(void *context) {
    tls *t = (tls *)context;
    if (t->ssl != NULL) {
        if (SSL_is_init_finished(t->ssl)) {
            /* Sends close_notify without waiting for the answer. */
            (void)SSL_shutdown(t->ssl);
        }
        SSL_free(t->ssl);
    }
    ERR_clear_error();
    t->ssl = NULL;
    t->under.close(t->under.context);
}

static uint32_t tls_now_ms(void *context) {
    tls *t = (tls *)context;
    return t->under.now_ms(t->under.context);
}

static bool refuse_revoked(SSL_CTX *context, const char *file) {
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
    return lookup != NULL && X509_load_crl_file(lookup, file, X509_FILETYPE_PEM) > 0 &&
           X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK) == 1;
}

/* Returns what is wrong with the settings, or NULL. */
static const char *set_up(tls *t) {
    const tls_config *config = &t->config;
    if (t->context == NULL || SSL_CTX_set_min_proto_version(t->context, TLS1_2_VERSION) != 1) {
        return "OpenSSL cannot be initialised";
    }
    SSL_CTX_set_verify(t->context, SSL_VERIFY_PEER, on_verified);
    /* A link passes the rest of its output, whose address may have changed. */
    SSL_CTX_set_mode(t->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (SSL_CTX_load_verify_locations(t->context, config->ca_file, NULL) != 1) {
        return "ca_file contains no PEM certificate";
    }
    if (config->revoked_file != NULL && !refuse_revoked(t->context, config->revoked_file)) {
        return "revoked_file contains no PEM revocation list";
    }
    if (config->certificate_file != NULL && SSL_CTX_use_certificate_chain_file(t->context, config->certificate_file) != 1) {
        return "certificate_file contains no PEM certificate";
    }
    if (config->certificate_file != NULL && (config->key_file == NULL ||
        SSL_CTX_use_PrivateKey_file(t->context, config->key_file, SSL_FILETYPE_PEM) != 1)) {
        return "the private key does not match the client certificate";
    }
    if (config->alpn != NULL) {
        unsigned char wire[256];
        size_t len = strlen(config->alpn);
        if (len == 0 || len > 255) {
            return "an ALPN protocol must have 1 to 255 bytes";
        }
        wire[0] = (unsigned char)len;
        memcpy(wire + 1, config->alpn, len);
        if (SSL_CTX_set_alpn_protos(t->context, wire, (unsigned)len + 1) != 0) {
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
    t->context = SSL_CTX_new(TLS_client_method());
    wrong = set_up(t);
    ERR_clear_error();
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
    SSL_CTX_free(t->context);
    free(t);
}
