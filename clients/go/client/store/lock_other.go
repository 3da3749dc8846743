//go:build !unix || solaris || illumos || aix

package store

import "io"

type noLock struct{}

func (noLock) Close() error { return nil }

// There is no flock here: that nobody else opens the file is left to the application.
func lockFile(string) (io.Closer, error) { return noLock{}, nil }

// Renaming is as durable as this system makes it.
func syncFolder(string) error { return nil }
