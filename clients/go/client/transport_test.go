package client_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/tautwire/tautwire/clients/go/client"
	"github.com/tautwire/tautwire/clients/go/internal/websocket"
	"github.com/tautwire/tautwire/clients/go/packets"
	"github.com/tautwire/tautwire/clients/go/server"
)

// certificate creates an authority, and a certificate of it for 127.0.0.1.
func certificate(t *testing.T) (*x509.CertPool, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	parsed, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// listen serves on a port that the kernel picks.
func listen(t *testing.T, o server.Options) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := server.New(o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTime)
		defer cancel()
		must(t, s.Close(ctx))
		if err := await(t, served); !errors.Is(err, server.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
	return listener.Addr().String()
}

func TestTransports(t *testing.T) {
	pool, own := certificate(t)
	secured := &tls.Config{Certificates: []tls.Certificate{own}}
	for scheme, o := range map[string]server.Options{
		"mqtt":  {},
		"mqtts": {TLS: secured},
		"ws":    {WebSocket: true, WebSocketPath: "/mqtt"},
		"wss":   {WebSocket: true, WebSocketPath: "/mqtt", TLS: secured},
	} {
		t.Run(scheme, func(t *testing.T) {
			ctx := testContext(t)
			o.Hooks.Publish = func(c *server.Conn, p *packets.Publish) error {
				back, err := packets.NewPublish(p.Topic(), p.Payload())
				if err != nil {
					return err
				}
				return errors.Join(c.Send(back), server.Acknowledge(c, p))
			}
			address := scheme + "://" + listen(t, o)
			options := client.Options{}
			if o.TLS != nil {
				options.TLS = &tls.Config{RootCAs: pool}
			}
			c, err := client.Connect(ctx, address, options)
			must(t, err)
			defer closeNow(t, c)
			sub, err := c.Subscribe(ctx, "a", client.SubscribeOptions{})
			must(t, err)
			for _, size := range []int{0, 1, 125, 126, 70_000, 1 << 20} {
				payload := bytes.Repeat([]byte{byte(size)}, size)
				must(t, c.Publish(ctx, client.Publication{Topic: "a", Payload: payload, QoS: qos1}))
				if got := receive(t, sub).Payload(); !bytes.Equal(got, payload) {
					t.Errorf("sent %d bytes, received %d", size, len(got))
				}
			}
		})
	}
}

func TestUnknownAuthorityIsNotTrusted(t *testing.T) {
	_, own := certificate(t)
	address := "mqtts://" + listen(t, server.Options{TLS: &tls.Config{Certificates: []tls.Certificate{own}}})
	err := firstFailure(t, address, client.Options{})
	unknown := x509.UnknownAuthorityError{}
	if e := wantError(t, err, client.ErrTLSSelfSigned); e.Code != client.ErrTLSSelfSigned || !errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
}

func TestServerWithoutWebSocketIsRefused(t *testing.T) {
	address := "ws://" + listen(t, server.Options{WebSocket: true, WebSocketPath: "/mqtt"}) + "/other"
	if err := firstFailure(t, address, client.Options{}); !errors.Is(err, client.ErrWebSocketRefused) || !errors.Is(err, websocket.ErrHandshake) {
		t.Errorf("got %v", err)
	}
}

func TestDialWithoutAConnectionIsRefused(t *testing.T) {
	nothing := func(context.Context) (net.Conn, error) { return nil, nil }
	_, err := client.Connect(testContext(t), "mqtt://server", client.Options{Dial: nothing})
	wantError(t, err, client.ErrInvalidOptions)
}
