// Package scram authenticates a user by SCRAM-SHA-256 or SCRAM-SHA-512 (RFC 5802, RFC 7677): the client proves that it knows
// the password without sending it, and the server has to prove that it knows it, too.
//
// The results of [SHA256] and [SHA512] are for [client.Options.Authenticator].
//
// Names and passwords must be visible ASCII and spaces: others would have to be normalised (SASLprep, RFC 4013), which this
// package does not do. There is no channel binding.
//
// [client.Options.Authenticator]: https://pkg.go.dev/github.com/tautwire/tautwire/clients/go/client#Options
package scram

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"
)

const (
	// MinIterations is the minimum number of iterations, as RFC 7677 requires.
	MinIterations = 4096
	// MaxIterations is the maximum, unless [User.MaxIterations] is set.
	MaxIterations = 100_000

	nonceBytes = 18
	// The GS2 header: no channel binding.
	header = "n,,"
)

// User is the client's side of the authentication. It caches the derived keys, so that only the first exchange computes the
// iterations, as long as the server keeps its salt. Each client needs a User of its own.
type User struct {
	// MaxIterations is the maximum that a server may request, so that no server can keep this client computing. 0: [MaxIterations].
	MaxIterations int

	method   string
	hash     func() hash.Hash
	name     string
	password string

	salt       []byte
	iterations int
	clientKey  []byte
	serverKey  []byte

	// State of the current exchange: what has been sent, or what the server has to send.
	bare      string
	nonce     string
	signature []byte
}

// SHA256 returns a user of SCRAM-SHA-256. The error is [ErrCredentials].
func SHA256(name, password string) (*User, error) {
	return newUser("SCRAM-SHA-256", sha256.New, name, password)
}

// SHA512 returns a user of SCRAM-SHA-512. The error is [ErrCredentials].
func SHA512(name, password string) (*User, error) {
	return newUser("SCRAM-SHA-512", sha512.New, name, password)
}

func newUser(method string, hash func() hash.Hash, name, password string) (*User, error) {
	if name == "" || !isVisible(name) {
		return nil, failure(ErrCredentials, "the user name must be visible ASCII and spaces")
	}
	if password == "" || !isVisible(password) {
		return nil, failure(ErrCredentials, "the password must be visible ASCII and spaces")
	}
	return &User{method: method, hash: hash, name: name, password: password}, nil
}

// Method returns the name of the authentication method.
func (u *User) Method() string { return u.method }

// Begin returns the client's first message.
func (u *User) Begin(context.Context) ([]byte, error) {
	random := make([]byte, nonceBytes)
	if _, err := rand.Read(random); err != nil {
		return nil, err
	}
	return u.begin(base64.StdEncoding.EncodeToString(random)), nil
}

func (u *User) begin(nonce string) []byte {
	u.nonce, u.signature = nonce, nil
	u.bare = "n=" + strings.NewReplacer("=", "=3D", ",", "=2C").Replace(u.name) + ",r=" + nonce
	return []byte(header + u.bare)
}

// Continue answers the server's first message with the proof.
func (u *User) Continue(_ context.Context, data []byte) ([]byte, error) {
	if u.nonce == "" {
		return nil, failure(ErrMalformed, "unexpected message")
	}
	bare, nonce := u.bare, u.nonce
	u.bare, u.nonce = "", ""
	first, err := parseServerFirst(data, nonce)
	if err != nil {
		return nil, err
	}
	most := u.MaxIterations
	if most == 0 {
		most = MaxIterations
	}
	if first.iterations < MinIterations || first.iterations > most {
		return nil, failure(ErrIterations, "the server requests a number of iterations outside of %d to %d", MinIterations, most)
	}
	if err := u.derive(first); err != nil {
		return nil, err
	}
	withoutProof := "c=" + base64.StdEncoding.EncodeToString([]byte(header)) + ",r=" + first.nonce
	message := bare + "," + first.text + "," + withoutProof
	stored := u.hash()
	stored.Write(u.clientKey)
	proof := u.mac(stored.Sum(nil), message)
	subtle.XORBytes(proof, proof, u.clientKey)
	u.signature = u.mac(u.serverKey, message)
	return []byte(withoutProof + ",p=" + base64.StdEncoding.EncodeToString(proof)), nil
}

// Finish checks the server's signature.
func (u *User) Finish(data []byte) error {
	expected := u.signature
	u.bare, u.nonce, u.signature = "", "", nil
	// Success before the proof proves nothing.
	if expected == nil || len(data) == 0 {
		return failure(ErrServerSignature, unproved)
	}
	signature, err := parseServerFinal(data)
	if err != nil {
		return err
	}
	if !hmac.Equal(expected, signature) {
		return failure(ErrServerSignature, unproved)
	}
	return nil
}

const unproved = "the server has not proved that it knows the password: check the address, and that nobody impersonates the server"

// derive computes the keys, unless they are cached.
func (u *User) derive(first serverFirst) error {
	if u.iterations == first.iterations && bytes.Equal(u.salt, first.salt) {
		return nil
	}
	salted, err := pbkdf2.Key(u.hash, u.password, first.salt, first.iterations, u.hash().Size())
	if err != nil {
		return fmt.Errorf("scram: %w", err)
	}
	u.salt, u.iterations = first.salt, first.iterations
	u.clientKey, u.serverKey = u.mac(salted, "Client Key"), u.mac(salted, "Server Key")
	return nil
}

func (u *User) mac(key []byte, message string) []byte {
	mac := hmac.New(u.hash, key)
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

// String shows no secrets.
func (u *User) String() string { return u.method + " " + u.name }

// GoString shows no secrets.
func (u *User) GoString() string { return "scram.User(" + u.String() + ")" }
