import { MqttError, type MqttErrorCode } from "../errors.js";

/** What is wrong, and what to do, for the codes of Node.js: those of OpenSSL's verification, of its alerts, and of Node.js itself. */
const EXPLANATIONS: readonly (readonly [RegExp, MqttErrorCode, string])[] = [
  [
    /^(UNABLE_TO_(VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT|GET_ISSUER_CERT_LOCALLY)|SELF_SIGNED_CERT_IN_CHAIN|CERT_SIGNATURE_FAILURE)$/,
    "tls_unknown_authority",
    "the server's certificate was issued by an authority that is not trusted; name that authority's certificate in `tls.ca`",
  ],
  [
    /^DEPTH_ZERO_SELF_SIGNED_CERT$/,
    "tls_self_signed",
    "the server's certificate is self-signed: no authority vouches for it; name this very certificate in `tls.ca`, or have an authority issue one",
  ],
  [/^CERT_HAS_EXPIRED$/, "tls_expired", "the server's certificate has expired; have the server renew it, or see whether the clock is right"],
  [/^CERT_NOT_YET_VALID$/, "tls_not_yet_valid", "the server's certificate is not valid yet; see whether the clock is right"],
  [/^CERT_REVOKED$/, "tls_revoked", "the server's certificate has been revoked: somebody else may have its key; have the server get a new one"],
  [/^(UNABLE_TO_GET_CRL|CRL_HAS_EXPIRED|CRL_NOT_YET_VALID|CRL_SIGNATURE_FAILURE)$/, "tls_revoked", "no list in `tls.crl` that is good now says whether the server's certificate has been revoked"],
  [/^(INVALID_PURPOSE|INVALID_CA|CERT_REJECTED|CERT_UNTRUSTED|PATH_LENGTH_EXCEEDED)$/, "tls_certificate", "the server's certificate cannot be used for a server"],
  [/_ALERT_CERTIFICATE_REQUIRED$/, "tls_client_certificate_required", "the server lets in only clients with a certificate; set `tls.cert` and `tls.key`"],
  [/_ALERT_CERTIFICATE_REVOKED$/, "tls_client_certificate_refused", "the server refuses this client's certificate: it has been revoked; get a new one"],
  [/_ALERT_CERTIFICATE_EXPIRED$/, "tls_client_certificate_refused", "the server refuses this client's certificate: it has expired, or is not valid yet; get a new one"],
  [/_ALERT_UNKNOWN_CA$/, "tls_client_certificate_refused", "the server refuses this client's certificate: it was issued by an authority that the server does not know"],
  [/_ALERT_UNSUPPORTED_CERTIFICATE$/, "tls_client_certificate_refused", "the server refuses this client's certificate: it is of a kind that is not for clients"],
  [/_ALERT_(BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|ACCESS_DENIED)$/, "tls_client_certificate_refused", "the server refuses this client's certificate, and does not say why; its log does"],
  [/_ALERT_NO_APPLICATION_PROTOCOL$/, "tls_nothing_in_common", "the server has none of the protocols in `tls.alpnProtocols`; ask for \"mqtt\", or for none"],
  [/_ALERT_(PROTOCOL_VERSION|HANDSHAKE_FAILURE|INSUFFICIENT_SECURITY)$|^ERR_SSL_(UNSUPPORTED_PROTOCOL|NO_PROTOCOLS_AVAILABLE)$/, "tls_nothing_in_common", "the server and this client have no version or cipher suite of TLS in common"],
  [/^ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST)$/, "tls_not_spoken", "the server does not speak TLS at this port; connect to its port for TLS, or with mqtt:// or ws://"],
  [/^ERR_OSSL_X509_KEY_VALUES_MISMATCH$/, "tls_settings", "`tls.key` is not the key of the certificate in `tls.cert`"],
  [/^ERR_OSSL_|^ERR_CRYPTO_|^ERR_INVALID_ARG_|^ERR_TLS_INVALID/, "tls_settings", "`tls` has something that cannot be used; certificates and keys are PEM"],
];

/** A failure of a socket, as an error that says what to do where it is one of TLS. */
export function explainTls(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") return misnamed(error);
  if (code === "ECONNRESET" && error.message.includes("before secure TLS connection")) {
    return new MqttError("tls_closed", "the server closed the connection before TLS was agreed on; is this its port for TLS?", {
      cause: error,
    });
  }
  const found = EXPLANATIONS.find(([pattern]) => pattern.test(code));
  return found === undefined ? error : new MqttError(found[1], found[2], { cause: error });
}

function misnamed(error: Error & { host?: string; cert?: { subjectaltname?: string } }): MqttError {
  const names = (error.cert?.subjectaltname ?? "")
    .split(", ")
    .map((name) => name.replace(/^(DNS|IP Address):/, ""))
    .join(", ");
  return new MqttError(
    "tls_name_mismatch",
    `the server's certificate is for ${names || "no name at all"}, not for ${error.host ?? "this host"}; connect by a name that it has, or set \`tls.servername\``,
    { cause: error },
  );
}
