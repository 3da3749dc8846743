package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// The limits of a [File].
const (
	// CompactBytes is the minimum number of dead bytes for a compaction.
	CompactBytes = 1024 * 1024
	// retainedBufferBytes is the capacity of the change buffer that is kept between syncs.
	retainedBufferBytes = 1024 * 1024
)

// FileOptions configure a [File]. The zero value suits most programs.
type FileOptions struct {
	// WithoutSync does not sync data to the device: the session survives a crash of the process, and may be set back by a power failure.
	WithoutSync bool
	// CompactBytes replaces the constant of the same name, if it is not 0.
	CompactBytes int64
}

// File stores a session in a file, safe against a crash at any time. FORMAT.md in this folder describes the format.
type File struct {
	path    string
	options FileOptions
	lock    io.Closer
	dropped int64
	loaded  bool

	// syncing is held during I/O, and is taken before mutex.
	syncing sync.Mutex
	file    *os.File
	written int64
	failure error

	mutex   sync.Mutex
	ledger  *ledger
	places  map[uint64]place
	pending []byte
	spare   []byte
	// size is the length of the file once pending is written; live is how much of it is still needed.
	size, live int64
}

// place is the position of the record that queued a message.
type place struct {
	offset int64
	length int
}

// OpenFile opens the session at path, or creates an empty one. It returns [ErrInUse] or [ErrCorrupt], or an error of the file system.
func OpenFile(path string, options FileOptions) (*File, error) {
	if options.CompactBytes == 0 {
		options.CompactBytes = CompactBytes
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	f := &File{path: path, options: options, lock: lock, ledger: newLedger(), places: map[uint64]place{}}
	if err := f.open(); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("store: %s: %w", path, err)
	}
	return f, nil
}

func (f *File) open() error {
	// A crash during compaction leaves this file.
	if err := os.Remove(f.newPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.read(file); err != nil {
		_ = file.Close()
		return err
	}
	f.file = file
	return nil
}

// read applies the records, and cuts off an incomplete record at the end.
func (f *File) read(file *os.File) error {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if end < headerBytes {
		f.dropped, f.size = end, headerBytes
		return f.start(file)
	}
	reader := bufio.NewReaderSize(file, 64*1024)
	found := make([]byte, headerBytes)
	if _, err := io.ReadFull(reader, found); err != nil {
		return err
	}
	if !bytes.Equal(found, header()) {
		return fmt.Errorf("%w: it is not a session file of version %d", ErrCorrupt, formatVersion)
	}
	f.size = headerBytes
	for {
		record, err := readRecord(reader, end-f.size)
		if err == io.EOF || errors.Is(err, errTorn) {
			break
		}
		if err != nil {
			return err
		}
		change, err := parseRecord(record)
		if err != nil || f.note(change, len(record)) != nil {
			break
		}
	}
	f.written, f.dropped = f.size, end-f.size
	if f.dropped > 0 {
		if err := file.Truncate(f.size); err != nil {
			return err
		}
	}
	_, err = file.Seek(f.size, io.SeekStart)
	return err
}

// readRecord reads a record of at most the remaining bytes, so that no length can claim more memory than the file has.
func readRecord(reader *bufio.Reader, left int64) ([]byte, error) {
	frame, err := reader.Peek(frameBytes)
	if err != nil {
		return nil, err
	}
	length, err := recordBytes(frame)
	if err != nil || int64(length) > left {
		return nil, errTorn
	}
	record := make([]byte, length)
	_, err = io.ReadFull(reader, record)
	return record, err
}

func (f *File) start(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	if _, err := file.WriteAt(header(), 0); err != nil {
		return err
	}
	if _, err := file.Seek(headerBytes, io.SeekStart); err != nil {
		return err
	}
	f.written = headerBytes
	if f.options.WithoutSync {
		return nil
	}
	if err := file.Sync(); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(f.path))
}

// note applies a change whose record has that length. Packets stay in the file.
func (f *File) note(change Change, length int) error {
	packet := change.Packet
	change.Packet = nil
	if err := f.ledger.apply(change); err != nil {
		return err
	}
	switch change.Kind {
	case Queued:
		f.places[change.Sequence] = place{offset: f.size, length: frameBytes + minBodyBytes + len(packet)}
		f.live += int64(length)
	case Released, Done:
		f.live -= int64(f.places[change.Sequence].length)
		delete(f.places, change.Sequence)
	}
	f.size += int64(length)
	return nil
}

// Dropped returns the number of bytes that opening cut off because a crash had left them incomplete.
func (f *File) Dropped() int64 { return f.dropped }

// Load returns the state. It reads the packets of queued messages.
func (f *File) Load() (State, error) {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if errors.Is(f.failure, os.ErrClosed) {
		return State{}, f.failure
	}
	if f.loaded {
		return State{}, ErrInUse
	}
	state := f.ledger.state()
	for i := range state.Outgoing {
		message := &state.Outgoing[i]
		if message.Release != 0 {
			continue
		}
		record, err := f.recordAt(f.places[message.Sequence])
		if err != nil {
			return State{}, err
		}
		message.Packet = record[frameBytes+minBodyBytes:]
	}
	f.loaded = true
	return state, nil
}

func (f *File) recordAt(at place) ([]byte, error) {
	record := make([]byte, at.length)
	if _, err := f.file.ReadAt(record, at.offset); err != nil {
		return nil, fmt.Errorf("store: %s: %w", f.path, err)
	}
	if _, err := parseRecord(record); err != nil {
		return nil, fmt.Errorf("%w: %s changed while it was open", ErrCorrupt, f.path)
	}
	return record, nil
}

// Record adds a change to the next [File.Sync].
func (f *File) Record(change Change) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	start := len(f.pending)
	f.pending = appendRecord(f.pending, change)
	if f.note(change, len(f.pending)-start) != nil {
		f.pending = f.pending[:start]
	}
}

// Sync writes the recorded changes. After a write error it may be tried again; a sync error is permanent, because the system does not
// say which data is lost.
func (f *File) Sync() error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	return f.sync()
}

func (f *File) sync() error {
	if f.failure != nil {
		return f.failure
	}
	f.mutex.Lock()
	batch := f.pending
	f.pending, f.spare = f.spare[:0], nil
	f.mutex.Unlock()
	if len(batch) > 0 {
		if _, err := f.file.WriteAt(batch, f.written); err != nil {
			f.mutex.Lock()
			f.pending = append(batch, f.pending...)
			f.mutex.Unlock()
			return fmt.Errorf("store: %w", err)
		}
		if !f.options.WithoutSync {
			if err := f.file.Sync(); err != nil {
				f.failure = fmt.Errorf("store: %w", err)
				return f.failure
			}
		}
		f.written += int64(len(batch))
	}
	f.mutex.Lock()
	if f.spare == nil && cap(batch) <= retainedBufferBytes {
		f.spare = batch
	}
	useless := f.written - headerBytes - f.live
	due := useless > f.options.CompactBytes && useless > f.live
	f.mutex.Unlock()
	if due {
		return f.compact()
	}
	return nil
}

// Close syncs, and unlocks the file. A second call does nothing, so that it may be deferred although the client closes it, too.
func (f *File) Close() error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	if errors.Is(f.failure, os.ErrClosed) {
		return nil
	}
	err := f.sync()
	if f.failure == nil {
		f.failure = fmt.Errorf("store: %s: %w", f.path, os.ErrClosed)
	}
	return errors.Join(err, f.file.Close(), f.lock.Close())
}

func (f *File) newPath() string { return f.path + ".new" }
