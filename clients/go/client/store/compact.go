package store

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// compact replaces the file with one of only the live records. Recording continues meanwhile.
func (f *File) compact() error {
	f.mutex.Lock()
	// Pending changes are already in the ledger, but not in the file: with pending changes the two differ, and
	// the next sync tries again.
	if len(f.pending) > 0 {
		f.mutex.Unlock()
		return nil
	}
	end := f.size
	changes, copies := f.snapshot()
	f.mutex.Unlock()

	file, err := os.OpenFile(f.newPath(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	moved, size, err := f.rewrite(file, changes, copies)
	if err != nil {
		_ = file.Close()
		_ = os.Remove(f.newPath())
		return fmt.Errorf("store: %w", err)
	}
	// Some systems do not rename over an open file. Either file is complete if the next step fails.
	_ = f.file.Close()
	f.file, f.written = file, size
	if err := os.Rename(f.newPath(), f.path); err != nil {
		f.failure = fmt.Errorf("store: %w", err)
		return f.failure
	}

	f.mutex.Lock()
	for sequence, at := range f.places {
		if at.offset >= end {
			at.offset += size - end
		} else {
			at.offset = moved[sequence]
		}
		f.places[sequence] = at
	}
	f.size += size - end
	f.mutex.Unlock()
	if f.options.WithoutSync {
		return nil
	}
	if err := syncFolder(filepath.Dir(f.path)); err != nil {
		f.failure = fmt.Errorf("store: %w", err)
	}
	return f.failure
}

// copied is a message whose record is copied unchanged.
type copied struct {
	sequence uint64
	from     place
}

// snapshot returns the changes that lead to the state, and the messages that they refer to.
func (f *File) snapshot() ([]Change, []copied) {
	var changes []Change
	var copies []copied
	if f.ledger.began {
		changes = append(changes, Change{Kind: Began, ClientID: f.ledger.clientID})
	}
	for id := range f.ledger.received {
		changes = append(changes, Change{Kind: Received, PacketID: id})
	}
	var released []*Outgoing
	for _, message := range f.ledger.inOrder() {
		if message.Release != 0 {
			released = append(released, message)
			// The packet is no longer needed; a change of another kind cannot introduce the message.
			changes = append(changes, Change{Kind: Queued, Sequence: message.Sequence, Version: message.Version})
		} else {
			copies = append(copies, copied{message.Sequence, f.places[message.Sequence]})
		}
		if message.PacketID != 0 {
			changes = append(changes, Change{Kind: Sent, Sequence: message.Sequence, PacketID: message.PacketID})
		}
	}
	slices.SortFunc(released, func(a, b *Outgoing) int { return cmp.Compare(a.Release, b.Release) })
	for _, message := range released {
		changes = append(changes, Change{Kind: Released, Sequence: message.Sequence})
	}
	return changes, copies
}

// rewrite fills file and returns the positions of the messages in it, and its length.
func (f *File) rewrite(file *os.File, changes []Change, copies []copied) (map[uint64]int64, int64, error) {
	writer := bufio.NewWriterSize(file, 64*1024)
	size := int64(0)
	write := func(data []byte) {
		_, _ = writer.Write(data)
		size += int64(len(data))
	}
	write(header())
	moved := make(map[uint64]int64, len(copies))
	for _, message := range copies {
		record, err := f.recordAt(message.from)
		if err != nil {
			return nil, 0, err
		}
		moved[message.sequence] = size
		write(record)
	}
	var scratch []byte
	for _, change := range changes {
		scratch = appendRecord(scratch[:0], change)
		write(scratch)
	}
	if err := writer.Flush(); err != nil {
		return nil, 0, err
	}
	if f.options.WithoutSync {
		return moved, size, nil
	}
	return moved, size, file.Sync()
}
