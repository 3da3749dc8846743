import { MqttError, type MqttErrorCode } from "../errors.js";

/** Maps the error codes of Node.js, of OpenSSL's verification and of TLS alerts to a code and a detail. */
const EXPLANATIONS: readonly (readonly [RegExp, MqttErrorCode, string])[] = [
  [
    /^(UNABLE_TO_(VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT|GET_ISSUER_CERT_LOCALLY)|SELF_SIGNED_CERT_IN_CHAIN|CERT_SIGNATURE_FAILURE)$/,
    "tls_unknown_authority",
    "set `tls.ca` to the certificate of the authority",
  ],
  [/^DEPTH_ZERO_SELF_SIGNED_CERT$/, "tls_self_signed", "set `tls.ca` to this certificate"],
  [/^CERT_HAS_EXPIRED$/, "tls_expired", ""],
  [/^CERT_NOT_YET_VALID$/, "tls_not_yet_valid", ""],
  [/^CERT_REVOKED$/, "tls_revoked", "it is in a CRL of `tls.crl`"],
  [/^(UNABLE_TO_GET_CRL|CRL_HAS_EXPIRED|CRL_NOT_YET_VALID|CRL_SIGNATURE_FAILURE)$/, "tls_revoked", "no CRL of `tls.crl` is valid now"],
  [/^(INVALID_PURPOSE|INVALID_CA|CERT_REJECTED|CERT_UNTRUSTED|PATH_LENGTH_EXCEEDED)$/, "tls_certificate", "it is not a server certificate"],
  [/_ALERT_CERTIFICATE_REQUIRED$/, "tls_client_certificate_required", "set `tls.cert` and `tls.key`"],
  [/_ALERT_CERTIFICATE_REVOKED$/, "tls_client_certificate_refused", "it has been revoked"],
  [/_ALERT_CERTIFICATE_EXPIRED$/, "tls_client_certificate_refused", "it has expired, or is not valid yet"],
  [/_ALERT_UNKNOWN_CA$/, "tls_client_certificate_refused", "the server does not trust the authority that issued it"],
  [/_ALERT_UNSUPPORTED_CERTIFICATE$/, "tls_client_certificate_refused", "it is not a client certificate"],
  [/_ALERT_(BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|ACCESS_DENIED)$/, "tls_client_certificate_refused", "see the log of the server for the reason"],
  [/_ALERT_NO_APPLICATION_PROTOCOL$/, "tls_no_shared_parameters", "none of the protocols in `tls.alpnProtocols`; offer \"mqtt\", or none"],
  [/_ALERT_(PROTOCOL_VERSION|HANDSHAKE_FAILURE|INSUFFICIENT_SECURITY)$|^ERR_SSL_(UNSUPPORTED_PROTOCOL|NO_PROTOCOLS_AVAILABLE)$/, "tls_no_shared_parameters", "no version or cipher suite"],
  [/^ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST)$/, "tls_not_supported", "or connect with mqtt:// or ws://"],
  [/^ERR_OSSL_X509_KEY_VALUES_MISMATCH$/, "tls_options", "`tls.key` is not the key of the certificate in `tls.cert`"],
  [/^ERR_OSSL_|^ERR_CRYPTO_|^ERR_INVALID_ARG_|^ERR_TLS_INVALID/, "tls_options", "certificates and keys must be PEM"],
];

/** Converts a TLS error of a socket to an error with a code and an action. Returns other errors unchanged. */
export function explainTls(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") return nameMismatch(error);
  if (code === "ECONNRESET" && error.message.includes("before secure TLS connection")) {
    return new MqttError("tls_closed", "", { cause: error });
  }
  const found = EXPLANATIONS.find(([pattern]) => pattern.test(code));
  return found === undefined ? error : new MqttError(found[1], found[2], { cause: error });
}

function nameMismatch(error: Error & { host?: string; cert?: { subjectaltname?: string } }): MqttError {
  const names = (error.cert?.subjectaltname ?? "")
    .split(", ")
    .map((name) => name.replace(/^(DNS|IP Address):/, ""))
    .join(", ");
  return new MqttError(
    "tls_name_mismatch",
    `it is for ${names || "no name"}, not for ${error.host ?? "this host"}; see \`tls.servername\``,
    { cause: error },
  );
}
