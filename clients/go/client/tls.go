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
	"time"
)

// Codes of what can be wrong with TLS. Errors that have one have [ErrDial] or [ErrHandshake] too.
const (
	// ErrTLSUnknownAuthority: the server's certificate was issued by an authority that is not trusted.
	ErrTLSUnknownAuthority Code = "tls_unknown_authority"
	// ErrTLSSelfSigned: the server's certificate was issued by nobody but itself, and is not trusted.
	ErrTLSSelfSigned Code = "tls_self_signed"
	// ErrTLSNameMismatch: the server's certificate is for other names.
	ErrTLSNameMismatch Code = "tls_name_mismatch"
	// ErrTLSExpired: the server's certificate has expired.
	ErrTLSExpired Code = "tls_expired"
	// ErrTLSNotYetValid: the server's certificate is not valid yet, or the clock is wrong.
	ErrTLSNotYetValid Code = "tls_not_yet_valid"
	// ErrTLSRevoked: the server's certificate has been revoked, or nothing says that it has not; see [RefuseRevoked].
	ErrTLSRevoked Code = "tls_revoked"
	// ErrTLSCertificate: the server's certificate cannot be used for another reason.
	ErrTLSCertificate Code = "tls_certificate"
	// ErrTLSClientCertificateRequired: the server asks for a certificate of this client, which has none.
	ErrTLSClientCertificateRequired Code = "tls_client_certificate_required"
	// ErrTLSClientCertificateRefused: the server does not accept this client's certificate.
	ErrTLSClientCertificateRefused Code = "tls_client_certificate_refused"
	// ErrTLSNothingInCommon: there is no version, cipher suite or protocol (ALPN) that both have.
	ErrTLSNothingInCommon Code = "tls_nothing_in_common"
	// ErrTLSNotSpoken: the server does not speak TLS at this port.
	ErrTLSNotSpoken Code = "tls_not_spoken"
	// ErrTLSClosed: the server ended the connection before the handshake was over.
	ErrTLSClosed Code = "tls_closed"
)

// tlsError says what is wrong with TLS, and what to do.
type tlsError struct {
	code Code
	text string
	err  error
}

func (e *tlsError) Error() string        { return "TLS: " + e.text + " [" + string(e.code) + "]" }
func (e *tlsError) Is(target error) bool { return target == e.code }
func (e *tlsError) Unwrap() error        { return e.err }

// secured is a connection by TLS whose errors say what is wrong: in TLS 1.3 a server refuses a client's certificate after the client's
// part of the handshake.
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
	if err := client.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if errors.Is(err, io.EOF) {
			text := "the server closed the connection before TLS was agreed on; is this its port for TLS?"
			return nil, &tlsError{ErrTLSClosed, text, err}
		}
		return nil, explainTLS(err)
	}
	return secured{client}, nil
}

// RefuseRevoked refuses servers with a certificate that an authority has revoked. It is for [tls.Config.VerifyConnection]. There must be a list for
// each authority of the server's certificate, and one that has expired refuses all of its certificates.
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
	text := "no list says whether the server's certificate has been revoked; add the list of its authority"
	for _, list := range lists {
		if !bytes.Equal(list.RawIssuer, certificate.RawIssuer) || list.CheckSignatureFrom(issuer) != nil {
			continue
		}
		if now.After(list.NextUpdate) {
			text = fmt.Sprintf("the list of revoked certificates is good until %s only; get the authority's newer one", day(list.NextUpdate))
			continue
		}
		for _, revoked := range list.RevokedCertificateEntries {
			if revoked.SerialNumber.Cmp(certificate.SerialNumber) == 0 {
				text = "the server's certificate has been revoked: somebody else may have its key; have the server get a new one"
				return &tlsError{code: ErrTLSRevoked, text: text}
			}
		}
		return nil
	}
	return &tlsError{code: ErrTLSRevoked, text: text}
}

// explainTLS gives an error of TLS with what to do; other errors as they are.
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
		if unknown.Cert != nil && bytes.Equal(unknown.Cert.RawIssuer, unknown.Cert.RawSubject) {
			return &tlsError{ErrTLSSelfSigned, "the server's certificate is self-signed: no authority vouches for it; " +
				"trust this very certificate (RootCAs), or have an authority issue one", err}
		}
		return &tlsError{ErrTLSUnknownAuthority, "the server's certificate was issued by an authority that is not trusted; " +
			"add that authority's certificate to RootCAs", err}
	case errors.As(err, &hostname):
		return &tlsError{ErrTLSNameMismatch, fmt.Sprintf("the server's certificate is for %s, not for %s; "+
			"connect by a name that it has, or set ServerName", names(hostname.Certificate), hostname.Host), err}
	case errors.As(err, &invalid):
		return explainInvalid(invalid, err)
	case errors.As(err, &header):
		return &tlsError{ErrTLSNotSpoken, "the server does not speak TLS at this port; " +
			"connect to its port for TLS, or with mqtt:// or ws://", err}
	case errors.As(err, &remote) && remote.Op == "remote error":
		return explainAlert(strings.TrimPrefix(remote.Err.Error(), "tls: "), err)
	}
	return err
}

func explainInvalid(invalid x509.CertificateInvalidError, err error) error {
	certificate, now := invalid.Cert, time.Now()
	switch {
	case invalid.Reason == x509.Expired && now.Before(certificate.NotBefore):
		return &tlsError{ErrTLSNotYetValid, fmt.Sprintf("the server's certificate is valid from %s on, and today is %s; "+
			"see whether the clock is right", day(certificate.NotBefore), day(now)), err}
	case invalid.Reason == x509.Expired:
		return &tlsError{ErrTLSExpired, fmt.Sprintf("the server's certificate expired on %s, and today is %s; "+
			"have the server renew it", day(certificate.NotAfter), day(now)), err}
	case invalid.Reason == x509.IncompatibleUsage:
		return &tlsError{ErrTLSCertificate, "the server's certificate is not for servers (its extended key usage); " +
			"have one issued with serverAuth", err}
	}
	return &tlsError{ErrTLSCertificate, "the server's certificate cannot be used: " + invalid.Error(), err}
}

// explainAlert takes what the server says is wrong in the words of crypto/tls, which gives its alerts no other names.
func explainAlert(alert string, err error) error {
	const refused = "the server refuses this client's certificate: "
	switch alert {
	case "certificate required":
		return &tlsError{ErrTLSClientCertificateRequired, "the server lets in only clients with a certificate; set Certificates", err}
	case "revoked certificate":
		return &tlsError{ErrTLSClientCertificateRefused, refused + "it has been revoked; get a new one", err}
	case "expired certificate":
		return &tlsError{ErrTLSClientCertificateRefused, refused + "it has expired, or is not valid yet; get a new one", err}
	case "unknown certificate authority":
		return &tlsError{ErrTLSClientCertificateRefused, refused + "it was issued by an authority that the server does not know", err}
	case "unsupported certificate":
		return &tlsError{ErrTLSClientCertificateRefused, refused + "it is of a kind that is not for clients", err}
	case "bad certificate", "unknown certificate", "access denied":
		return &tlsError{ErrTLSClientCertificateRefused, refused + "the server does not say why; its log does", err}
	case "no application protocol":
		return &tlsError{ErrTLSNothingInCommon, "the server has none of the protocols in NextProtos; ask for \"mqtt\", or for none", err}
	case "protocol version not supported", "handshake failure", "insufficient security level":
		return &tlsError{ErrTLSNothingInCommon, "the server and this client have no version or cipher suite of TLS in common", err}
	}
	return err
}

func names(certificate *x509.Certificate) string {
	all := append([]string(nil), certificate.DNSNames...)
	for _, address := range certificate.IPAddresses {
		all = append(all, address.String())
	}
	if len(all) == 0 {
		return "no name at all"
	}
	return strings.Join(all, ", ")
}

func day(moment time.Time) string { return moment.UTC().Format(time.DateOnly) }
