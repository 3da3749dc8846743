//go:build unix && !solaris && !illumos && !aix

package store

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

func TestStartingProcessDoesNotKeepTheFileLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session.lock")
	lock, err := lockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockFile(path); !errors.Is(err, ErrInUse) {
		t.Fatalf("got %v, want %v", err, ErrInUse)
	}
	inherited, err := syscall.Dup(int(lock.(fileLock).file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(inherited) }()
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
