//go:build !unix || solaris || illumos || aix

package store

import "io"

type noLock struct{}

func (noLock) Close() error { return nil }

// There is no flock here: the application has to ensure that nothing else opens the file.
func lockFile(string) (io.Closer, error) { return noLock{}, nil }

// A rename is as durable as this system makes it.
func syncFolder(string) error { return nil }
