package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/packets"
)

// authority is a folder with the output of `tautwire cert`.
type authority struct {
	t      *testing.T
	folder string
}

func newAuthority(t *testing.T, arguments ...string) authority {
	t.Helper()
	a := authority{t, t.TempDir()}
	a.cert(arguments...)
	return a
}

func (a authority) cert(arguments ...string) {
	a.t.Helper()
	command := exec.Command(brokerBinary(a.t), append([]string{"cert", "--dir", a.folder}, arguments...)...)
	if output, err := command.CombinedOutput(); err != nil {
		a.t.Fatalf("%v: %s", err, output)
	}
}

func (a authority) file(name string) string { return filepath.Join(a.folder, name) }

func (a authority) read(name string) []byte {
	a.t.Helper()
	text, err := os.ReadFile(a.file(name))
	must(a.t, err)
	return text
}

// trust trusts the certificate of a file.
func (a authority) trust(name string) *tls.Config {
	a.t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.read(name)) {
		a.t.Fatalf("%s holds no certificate", name)
	}
	return &tls.Config{RootCAs: pool}
}

func (a authority) pair(name string) tls.Certificate {
	a.t.Helper()
	pair, err := tls.LoadX509KeyPair(a.file(name+".pem"), a.file(name+".key"))
	must(a.t, err)
	return pair
}

func (a authority) revoked() *x509.RevocationList {
	a.t.Helper()
	block, _ := pem.Decode(a.read("revoked.pem"))
	list, err := x509.ParseRevocationList(block.Bytes)
	must(a.t, err)
	return list
}

// runTLS starts a broker with the certificate of a, and gives its addresses for mqtts and wss.
func runTLS(a authority, settings ...string) (mqtts, wss string) {
	a.t.Helper()
	all := append([]string{"tls.certificate=" + a.file("server.pem"), "tls.key=" + a.file("server.key")}, settings...)
	addresses, _ := runBrokerWith(a.t, all, "mqtts://127.0.0.1:0", "wss://127.0.0.1:0/mqtt")
	local := strings.NewReplacer("127.0.0.1", "localhost")
	return local.Replace(addresses[0]), local.Replace(addresses[1])
}

// wantRefused fails unless the connection fails with this code, and a text that contains says.
func wantRefused(t *testing.T, address string, config *tls.Config, code client.Code, says string) {
	t.Helper()
	err := firstFailure(t, address, client.Options{TLS: config})
	if e := wantError(t, err, code); e.Code != code || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: got %v, want %s, %q", address, err, code, says)
	}
}

func wantConnected(t *testing.T, address string, config *tls.Config) {
	t.Helper()
	ctx := testContext(t)
	c, err := client.Connect(ctx, address, client.Options{TLS: config})
	must(t, err)
	sub, err := c.Subscribe(ctx, "t", client.SubscribeOptions{QoS: qos1})
	must(t, err)
	must(t, c.Publish(ctx, client.Publication{Topic: "t", Payload: []byte("x"), QoS: packets.AtLeastOnce}))
	if got := receive(t, sub).Payload(); string(got) != "x" {
		t.Errorf("got %q", got)
	}
	must(t, c.Close(ctx))
}

func TestTLSReportsServerCertificateErrors(t *testing.T) {
	ours, strange := newAuthority(t), newAuthority(t)
	mqtts, wss := runTLS(ours)
	for _, address := range []string{mqtts, wss, strings.Replace(mqtts, "localhost", "127.0.0.1", 1)} {
		wantConnected(t, address, ours.trust("ca.pem"))
		wantRefused(t, address, strange.trust("ca.pem"), client.ErrTLSUnknownAuthority, "RootCAs")
		misnamed := ours.trust("ca.pem")
		misnamed.ServerName = "other.example"
		wantRefused(t, address, misnamed, client.ErrTLSNameMismatch, "it is for localhost, ")
		wantRefused(t, address, misnamed, client.ErrTLSNameMismatch, "not for other.example")
	}
	asks := ours.trust("ca.pem")
	asks.NextProtos = []string{"mqtt"}
	wantConnected(t, mqtts, asks)
	asks.NextProtos = []string{"h2"}
	wantRefused(t, mqtts, asks, client.ErrTLSNoSharedParameters, "NextProtos")

	ours.cert("--revoke", ours.file("server.pem"))
	checks := ours.trust("ca.pem")
	checks.VerifyConnection = client.RefuseRevoked(ours.revoked())
	wantRefused(t, mqtts, checks, client.ErrTLSRevoked, "has been revoked")
	checks.VerifyConnection = client.RefuseRevoked()
	wantRefused(t, mqtts, checks, client.ErrTLSRevoked, "there is no revocation list of")

	expired := newAuthority(t, "--days", "-1")
	mqtts, _ = runTLS(expired)
	wantRefused(t, mqtts, expired.trust("ca.pem"), client.ErrTLSExpired, "expired on 20")
	// A list with other certificates refuses nothing.
	withdrawn := newAuthority(t, "--client", "a")
	withdrawn.cert("--revoke", withdrawn.file("a.pem"))
	mqtts, _ = runTLS(withdrawn)
	checks = withdrawn.trust("ca.pem")
	checks.VerifyConnection = client.RefuseRevoked(withdrawn.revoked())
	wantConnected(t, mqtts, checks)
}

func TestTLSReportsASelfSignedCertificate(t *testing.T) {
	ours := newAuthority(t)
	pool, own := certificate(t)
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	must(t, err)
	for name, block := range map[string]*pem.Block{
		"server.pem": {Type: "CERTIFICATE", Bytes: own.Certificate[0]},
		"server.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		must(t, os.WriteFile(ours.file(name), pem.EncodeToMemory(block), 0o600))
	}
	mqtts, _ := runTLS(ours)
	byAddress := strings.Replace(mqtts, "localhost", "127.0.0.1", 1)
	wantRefused(t, byAddress, ours.trust("ca.pem"), client.ErrTLSSelfSigned, "RootCAs")
	wantConnected(t, byAddress, &tls.Config{RootCAs: pool})
}

func TestTLSReportsClientCertificateErrors(t *testing.T) {
	ours, strange := newAuthority(t, "--client", "good", "--client", "revoked-one"), newAuthority(t, "--client", "stranger")
	ours.cert("--client", "late", "--days", "-1")
	ours.cert("--revoke", ours.file("revoked-one.pem"))
	mqtts, wss := runTLS(ours, "tls.client_certificates=required", "tls.client_ca="+ours.file("ca.pem"), "tls.crl="+ours.file("revoked.pem"))
	for _, address := range []string{mqtts, wss} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			shows := func(pair *tls.Certificate) *tls.Config {
				config := ours.trust("ca.pem")
				config.MaxVersion = version
				if pair != nil {
					// As Certificates, also if the server names other authorities.
					config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
				}
				return config
			}
			good, revoked, late, stranger, own := ours.pair("good"), ours.pair("revoked-one"), ours.pair("late"), strange.pair("stranger"), ours.pair("server")
			wantConnected(t, address, shows(&good))
			wantRefused(t, address, shows(nil), client.ErrTLSClientCertificateRequired, "set Certificates")
			wantRefused(t, address, shows(&revoked), client.ErrTLSClientCertificateRefused, "it has been revoked")
			wantRefused(t, address, shows(&late), client.ErrTLSClientCertificateRefused, "it has expired")
			wantRefused(t, address, shows(&stranger), client.ErrTLSClientCertificateRefused, "the server does not trust the authority that issued it")
			wantRefused(t, address, shows(&own), client.ErrTLSClientCertificateRefused, "it is not a client certificate")
		}
	}
}

func TestTLSDetectsAServerWithoutTLS(t *testing.T) {
	for answer, code := range map[string]client.Code{"HTTP/1.1 400 Bad Request\r\n\r\n": client.ErrTLSNotSupported, "": client.ErrTLSClosed} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}
		}()
		wantRefused(t, "mqtts://"+listener.Addr().String(), nil, code, "the server ")
		must(t, listener.Close())
	}
}
