package scram

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type vector struct {
	ID, Mechanism, User, Password, Result string

	ClientNonce string  `json:"client_nonce"`
	ClientFirst string  `json:"client_first"`
	ServerFirst string  `json:"server_first"`
	ClientFinal string  `json:"client_final"`
	ServerFinal *string `json:"server_final"`
}

// run returns the client's messages, and the result.
func (v vector) run(t *testing.T) (written []string, err error) {
	t.Helper()
	begin := SHA256
	if v.Mechanism == "SCRAM-SHA-512" {
		begin = SHA512
	}
	user, err := begin(v.User, v.Password)
	if err != nil {
		return nil, err
	}
	if user.Method() != v.Mechanism {
		t.Errorf("the method is %s", user.Method())
	}
	written = []string{string(user.begin(v.ClientNonce))}
	answer, err := user.Continue(t.Context(), []byte(v.ServerFirst))
	if err != nil {
		return written, err
	}
	written = append(written, string(answer))
	if v.ServerFinal == nil {
		return written, user.Finish(nil)
	}
	return written, user.Finish([]byte(*v.ServerFinal))
}

func TestEveryVectorSucceeds(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "spec", "vectors", "scram", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []vector }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) <= 60 {
		t.Fatalf("there are %d vectors", len(file.Vectors))
	}
	for _, v := range file.Vectors {
		t.Run(v.ID, func(t *testing.T) {
			written, err := v.run(t)
			want := strings.Fields(v.ClientFirst + "\n" + v.ClientFinal)
			if got := strings.Fields(strings.Join(written, "\n")); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("wrote %q, want %q", got, want)
			}
			result := "valid"
			if err != nil {
				var own *Error
				if !errors.As(err, &own) {
					t.Fatalf("got %v", err)
				}
				result = string(own.Code)
			}
			if result != v.Result {
				t.Errorf("ends with %v, want %s", err, v.Result)
			}
		})
	}
}

const challenge = "r=nonce-and-more,s=AAAA,i=4096"

func challenged(t *testing.T, user *User, challenge string) string {
	t.Helper()
	user.begin("nonce")
	answer, err := user.Continue(t.Context(), []byte(challenge))
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func ann(t *testing.T) *User {
	t.Helper()
	user, err := SHA256("ann", "pencil")
	if err != nil {
		t.Fatal(err)
	}
	return user
}

func TestKeysAreCachedForTheSameSaltAndIterations(t *testing.T) {
	user := ann(t)
	first := challenged(t, user, challenge)
	// Without the password, only cached keys give the same proof.
	user.password = "forgotten"
	if again := challenged(t, user, challenge); again != first {
		t.Errorf("got %s, want %s", again, first)
	}
	for _, other := range []string{"r=nonce-and-more,s=AAAA,i=4097", "r=nonce-and-more,s=AAAB,i=4097", challenge} {
		fresh := ann(t)
		fresh.password = user.password
		if challenged(t, user, other) != challenged(t, fresh, other) {
			t.Errorf("%s is answered with keys that are not for it", other)
		}
	}
}

func TestEachExchangeHasItsOwnNonce(t *testing.T) {
	user := ann(t)
	first, err := user.Begin(t.Context())
	second, err2 := user.Begin(t.Context())
	if err != nil || err2 != nil || bytes.Equal(first, second) {
		t.Errorf("got %s and %s, %v", first, second, errors.Join(err, err2))
	}
}

func TestEarlyOrRepeatedSuccessProvesNothing(t *testing.T) {
	user := ann(t)
	unproved := func() {
		t.Helper()
		for _, last := range []string{"v=AAAA", "v="} {
			if err := user.Finish([]byte(last)); !errors.Is(err, ErrServerSignature) {
				t.Errorf("%s: got %v", last, err)
			}
		}
	}
	unproved()
	user.begin("nonce")
	unproved()
	challenged(t, user, challenge)
	if _, err := user.Continue(t.Context(), []byte(challenge)); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v", err)
	}
	unproved()
	unproved()
}

func TestOnlyTheMaximumOfIterationsIsConfigurable(t *testing.T) {
	user := ann(t)
	user.MaxIterations = 4095
	user.begin("nonce")
	if _, err := user.Continue(t.Context(), []byte("r=nonce-and-more,s=AAAA,i=4095")); !errors.Is(err, ErrIterations) {
		t.Errorf("got %v", err)
	}
	user.MaxIterations = MaxIterations + 1
	challenged(t, user, "r=nonce-and-more,s=AAAA,i=100001")
}

func TestOutputHasNoSecrets(t *testing.T) {
	user := ann(t)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		shown := fmt.Sprintf(format, user)
		if !strings.Contains(shown, "ann") || strings.Contains(shown, "pencil") {
			t.Errorf("%s shows %s", format, shown)
		}
	}
}
