//go:build unix && !solaris && !illumos && !aix

package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

func lockFile(path string) (io.Closer, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrInUse, path)
		}
		return nil, fmt.Errorf("store: %s: %w", path, err)
	}
	return fileLock{file}, nil
}

type fileLock struct{ file *os.File }

// Close unlocks the file explicitly: a child process that is being started inherits the descriptor until it executes its program, and
// closing ours would leave the file locked.
func (l fileLock) Close() error {
	unlocked := syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	return errors.Join(unlocked, l.file.Close())
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
