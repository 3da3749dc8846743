package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// Codes of TLS failures.
const (
	// ErrTLSUnknownAuthority: the server's certificate was issued by an authority that is not trusted.
	ErrTLSUnknownAuthority Code = "tls_unknown_authority"
	// ErrTLSNeeded: the server speaks TLS, and the address is not encrypted.
	ErrTLSNeeded Code = "tls_needed"
	// ErrTLSSelfSigned: the server's certificate is self-signed and not trusted.
	ErrTLSSelfSigned Code = "tls_self_signed"
	// ErrTLSNameMismatch: the server's certificate is for other names.
	ErrTLSNameMismatch Code = "tls_name_mismatch"
	// ErrTLSExpired: the server's certificate has expired.
	ErrTLSExpired Code = "tls_expired"
	// ErrTLSNotYetValid: the server's certificate is not valid yet, or the clock is wrong.
	ErrTLSNotYetValid Code = "tls_not_yet_valid"
	// ErrTLSRevoked: the server's certificate has been revoked, or its revocation status is unknown; see [RefuseRevoked].
	ErrTLSRevoked Code = "tls_revoked"
	// ErrTLSCertificate: the server's certificate cannot be used for another reason.
	ErrTLSCertificate Code = "tls_certificate"
	// ErrTLSClientCertificateRequired: the server requests a certificate of this client, which has none.
	ErrTLSClientCertificateRequired Code = "tls_client_certificate_required"
	// ErrTLSClientCertificateRefused: the server does not accept this client's certificate.
	ErrTLSClientCertificateRefused Code = "tls_client_certificate_refused"
	// ErrTLSNoSharedParameters: there is no version, cipher suite or protocol (ALPN) that both sides support.
	ErrTLSNoSharedParameters Code = "tls_no_shared_parameters"
	// ErrTLSNotSupported: the server does not speak TLS at this port.
	ErrTLSNotSupported Code = "tls_not_supported"
	// ErrTLSClosed: the server closed the connection before the handshake was complete.
	ErrTLSClosed Code = "tls_closed"
)

// tlsError is a TLS failure. It becomes an [Error] with its code when the connection is given up.
type tlsError struct {
	code   Code
	detail string
	err    error
}

func (e *tlsError) Error() string {
	text := texts[e.code]
	if e.detail != "" {
		text += " (" + e.detail + ")"
	}
	return text + " [" + string(e.code) + "]"
}

func (e *tlsError) Is(target error) bool { return target == e.code }
func (e *tlsError) Unwrap() error        { return e.err }

// secured is a TLS connection with explained errors: in TLS 1.3 a server refuses a client's certificate after the client's part of the
// handshake.
type secured struct{ *tls.Conn }

func (s secured) Read(to []byte) (int, error) {
	count, err := s.Conn.Read(to)
	return count, explainTLS(err)
}

func secure(ctx context.Context, conn net.Conn, host string, config *tls.Config) (net.Conn, error) {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName = host
	}
	client := tls.Client(conn, config)
	err := client.HandshakeContext(ctx)
	if err == nil {
		return secured{client}, nil
	}
	_ = conn.Close()
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return nil, &tlsError{ErrTLSClosed, "", err}
	}
	var known *tlsError
	if explained := explainTLS(err); errors.As(explained, &known) {
		return nil, known
	}
	return nil, &tlsError{ErrHandshake, "", err}
}

// RefuseRevoked refuses servers with a revoked certificate. It is for [tls.Config.VerifyConnection]. There must be a revocation list for
// each authority of the server's certificate, and an expired list refuses all of its certificates.
func RefuseRevoked(lists ...*x509.RevocationList) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		for _, chain := range state.VerifiedChains {
			for at, certificate := range chain[:len(chain)-1] {
				if err := checkRevoked(certificate, chain[at+1], lists, time.Now()); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func checkRevoked(certificate, issuer *x509.Certificate, lists []*x509.RevocationList, now time.Time) error {
	detail := fmt.Sprintf("there is no revocation list of %s", certificate.Issuer)
	for _, list := range lists {
		if !bytes.Equal(list.RawIssuer, certificate.RawIssuer) || list.CheckSignatureFrom(issuer) != nil {
			continue
		}
		if now.After(list.NextUpdate) {
			detail = fmt.Sprintf("the revocation list of %s expired on %s", certificate.Issuer, day(list.NextUpdate))
			continue
		}
		for _, revoked := range list.RevokedCertificateEntries {
			if revoked.SerialNumber.Cmp(certificate.SerialNumber) == 0 {
				return &tlsError{code: ErrTLSRevoked, detail: "on " + day(revoked.RevocationTime)}
			}
		}
		return nil
	}
	return &tlsError{code: ErrTLSRevoked, detail: detail}
}

// explainTLS gives TLS errors their code, and returns other errors unchanged.
func explainTLS(err error) error {
	var (
		known    *tlsError
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
		header   tls.RecordHeaderError
		remote   *net.OpError
	)
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.As(err, &unknown):
		if unknown.Cert == nil {
			return &tlsError{ErrTLSUnknownAuthority, "see RootCAs of Options.TLS", err}
		}
		if bytes.Equal(unknown.Cert.RawIssuer, unknown.Cert.RawSubject) {
			return &tlsError{ErrTLSSelfSigned, fmt.Sprintf("its subject is %s; see RootCAs of Options.TLS", unknown.Cert.Subject), err}
		}
		return &tlsError{ErrTLSUnknownAuthority, fmt.Sprintf("its issuer is %s; see RootCAs of Options.TLS", unknown.Cert.Issuer), err}
	case errors.As(err, &hostname):
		return &tlsError{ErrTLSNameMismatch, fmt.Sprintf("it is for %s, not for %s; see ServerName of Options.TLS",
			names(hostname.Certificate), hostname.Host), err}
	case errors.As(err, &invalid):
		return explainInvalid(invalid, err)
	case errors.As(err, &header):
		return &tlsError{ErrTLSNotSupported, "to connect without TLS, use mqtt:// or ws://", err}
	case errors.As(err, &remote) && remote.Op == "remote error":
		return explainAlert(strings.TrimPrefix(remote.Err.Error(), "tls: "), err)
	}
	return err
}

func explainInvalid(invalid x509.CertificateInvalidError, err error) error {
	certificate, now := invalid.Cert, time.Now()
	switch {
	case invalid.Reason == x509.Expired && now.Before(certificate.NotBefore):
		return &tlsError{ErrTLSNotYetValid, fmt.Sprintf("it is valid from %s on, and today is %s", day(certificate.NotBefore), day(now)), err}
	case invalid.Reason == x509.Expired:
		return &tlsError{ErrTLSExpired, fmt.Sprintf("it expired on %s, and today is %s", day(certificate.NotAfter), day(now)), err}
	case invalid.Reason == x509.IncompatibleUsage:
		return &tlsError{ErrTLSCertificate, "its extended key usage does not allow servers: have one issued with serverAuth", err}
	}
	return &tlsError{ErrTLSCertificate, invalid.Error(), err}
}

// explainAlert explains an alert of the server by its text in crypto/tls, which has no other names for alerts.
func explainAlert(alert string, err error) error {
	switch alert {
	case "certificate required":
		return &tlsError{ErrTLSClientCertificateRequired, "set Certificates of Options.TLS", err}
	case "revoked certificate":
		return &tlsError{ErrTLSClientCertificateRefused, "it has been revoked", err}
	case "expired certificate":
		return &tlsError{ErrTLSClientCertificateRefused, "it has expired, or is not valid yet", err}
	case "unknown certificate authority":
		return &tlsError{ErrTLSClientCertificateRefused, "the server does not trust the authority that issued it", err}
	case "unsupported certificate":
		return &tlsError{ErrTLSClientCertificateRefused, "it is not a client certificate", err}
	case "bad certificate", "unknown certificate", "access denied":
		return &tlsError{ErrTLSClientCertificateRefused, "see the server's log", err}
	case "no application protocol":
		return &tlsError{ErrTLSNoSharedParameters, "ALPN: set NextProtos to \"mqtt\", or to none", err}
	case "protocol version not supported", "handshake failure", "insufficient security level":
		return &tlsError{ErrTLSNoSharedParameters, "TLS versions or cipher suites", err}
	}
	return err
}

func names(certificate *x509.Certificate) string {
	all := append([]string(nil), certificate.DNSNames...)
	for _, address := range certificate.IPAddresses {
		all = append(all, address.String())
	}
	if len(all) == 0 {
		return "no name"
	}
	return strings.Join(all, ", ")
}

func day(moment time.Time) string { return moment.UTC().Format(time.DateOnly) }
