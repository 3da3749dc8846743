package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestTheStateSurvivesClosing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session")
	file, err := OpenFile(path, FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	load(t, file)
	for _, change := range aSession() {
		file.Record(change)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	got := load(t, open(t, path))
	want := State{
		Began: true, ClientID: "meter",
		Outgoing: []Outgoing{
			{Sequence: 2, PacketID: 7, Release: 1, Version: 5},
			{Sequence: 3, PacketID: 9, Version: 4, Packet: []byte("three")},
			{Sequence: 4, Version: 5, Packet: []byte("four")},
		},
		Received: []uint16{3, 65535},
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func TestMemoryStorePassesTheSessionToTheNextClient(t *testing.T) {
	memory := NewMemory()
	if _, err := memory.Load(); err != nil {
		t.Fatal(err)
	}
	if _, err := memory.Load(); !errors.Is(err, ErrInUse) {
		t.Fatalf("a second client got %v", err)
	}
	for _, change := range aSession() {
		memory.Record(change)
	}
	_ = memory.Close()
	state, err := memory.Load()
	if err != nil || len(state.Outgoing) != 3 || state.Outgoing[2].Sequence != 4 {
		t.Fatalf("got %+v, %v", state, err)
	}
}

// Whatever a crash leaves of the file, opening it returns the state after a number of complete changes, at least
// those that were synced.
func TestCrashAtAnyByteLosesOnlyUnsyncedChanges(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "session")
	file := open(t, path)
	load(t, file)
	states := []State{newLedger().state()}
	model := newLedger()
	ends := []int64{headerBytes}
	for _, change := range aSession() {
		file.Record(change)
		if err := file.Sync(); err != nil {
			t.Fatal(err)
		}
		_ = model.apply(change)
		states, ends = append(states, model.state()), append(ends, file.written)
	}
	_ = file.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for length := 0; length <= len(whole); length++ {
		for _, tail := range [][]byte{nil, {0}, bytes.Repeat([]byte{0}, 100), bytes.Repeat([]byte{0xFF}, 100)} {
			if length < headerBytes && tail != nil {
				continue
			}
			torn := filepath.Join(folder, "torn")
			content := append(bytes.Clone(whole[:length]), tail...)
			if err := os.WriteFile(torn, content, 0o600); err != nil {
				t.Fatal(err)
			}
			kept := 0
			for kept+1 < len(ends) && bytes.HasPrefix(content, whole[:ends[kept+1]]) {
				kept++
			}
			again := open(t, torn)
			if got := load(t, again); !reflect.DeepEqual(got, states[kept]) {
				t.Fatalf("cut at %d: got %+v, want %+v", length, got, states[kept])
			}
			// Later records are found again.
			again.Record(Change{Kind: Queued, Sequence: 99, Version: 5, Packet: []byte("after")})
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
			last := open(t, torn)
			if got := load(t, last); len(got.Outgoing) != len(states[kept].Outgoing)+1 || last.Dropped() != 0 {
				t.Fatalf("cut at %d: then %+v, %d bytes dropped", length, got, last.Dropped())
			}
			_ = last.Close()
		}
	}
}

func TestDamagedByteTruncatesTheFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "session")
	file := open(t, path)
	load(t, file)
	for _, change := range aSession() {
		file.Record(change)
	}
	_ = file.Close()
	whole, _ := os.ReadFile(path)
	for at := headerBytes; at < len(whole); at++ {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x10
		torn := filepath.Join(folder, "torn")
		_ = os.WriteFile(torn, damaged, 0o600)
		again := open(t, torn)
		load(t, again)
		if again.Dropped() == 0 {
			t.Fatalf("the damage at %d was not seen", at)
		}
		_ = again.Close()
	}
}

func TestForeignFileIsLeftUnchanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session")
	content := []byte("these are the notes of last summer")
	_ = os.WriteFile(path, content, 0o600)
	if _, err := OpenFile(path, FileOptions{}); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("got %v", err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, content) {
		t.Fatal("it was changed")
	}
}

func TestFileIsOpenedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session")
	file := open(t, path)
	if _, err := OpenFile(path, FileOptions{}); !errors.Is(err, ErrInUse) {
		t.Fatalf("got %v", err)
	}
	_ = file.Close()
	if err := file.Close(); err != nil {
		t.Fatalf("a second Close: %v", err)
	}
	// A client with a store that another one has closed gets ErrClosed, not ErrInUse.
	if _, err := file.Load(); !errors.Is(err, os.ErrClosed) || errors.Is(err, ErrInUse) {
		t.Fatalf("got %v", err)
	}
	_ = open(t, path).Close()
}

// A long random run with small limits, so that the file is compacted often, matches the model at each reopening; and
// the file stays small.
func TestCompactionKeepsTheState(t *testing.T) {
	for seed := range int64(20) {
		random := rand.New(rand.NewSource(seed))
		path := filepath.Join(t.TempDir(), "session")
		options := FileOptions{CompactBytes: 256, WithoutSync: true}
		file, err := OpenFile(path, options)
		if err != nil {
			t.Fatal(err)
		}
		load(t, file)
		model := newLedger()
		record := func(change Change) {
			if model.apply(change) == nil {
				file.Record(change)
			}
		}
		next := uint64(0)
		for range 2000 {
			some := uint64(random.Intn(int(next + 1)))
			switch random.Intn(12) {
			case 0, 1, 2:
				next++
				packet := []byte(fmt.Sprintf("%d %s", next, bytes.Repeat([]byte{'x'}, random.Intn(60))))
				record(Change{Kind: Queued, Sequence: next, Version: 5, Packet: packet})
			case 3, 4:
				if m := model.outgoing[some]; m != nil && m.Release == 0 {
					record(Change{Kind: Sent, Sequence: some, PacketID: uint16(random.Intn(65535) + 1)})
				}
			case 5:
				if m := model.outgoing[some]; m != nil && m.Release == 0 && m.PacketID != 0 {
					record(Change{Kind: Released, Sequence: some})
				}
			case 6, 7, 8:
				record(Change{Kind: Done, Sequence: some})
			case 9:
				record(Change{Kind: Received, PacketID: uint16(random.Intn(9) + 1)})
			case 10:
				record(Change{Kind: Completed, PacketID: uint16(random.Intn(9) + 1)})
			case 11:
				switch random.Intn(40) {
				case 0:
					record(Change{Kind: Began, ClientID: fmt.Sprint("client ", random.Intn(9))})
				case 1:
					if err := file.Close(); err != nil {
						t.Fatal(err)
					}
					if file, err = OpenFile(path, options); err != nil {
						t.Fatal(err)
					}
					compare(t, load(t, file), model.state())
					// Only the order of releases matters, not their numbers.
					model = file.ledger.clone()
					for sequence, at := range file.places {
						whole, err := file.recordAt(at)
						if err != nil {
							t.Fatal(err)
						}
						model.outgoing[sequence].Packet = whole[frameBytes+minBodyBytes:]
					}
				default:
					if err := file.Sync(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		information, _ := os.Stat(path)
		if live := file.live; information.Size() > 2*live+16*1024 {
			t.Fatalf("%d bytes for %d of use", information.Size(), live)
		}
	}
}

// Changes are recorded during compaction.
func TestRecordingContinuesDuringCompaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session")
	file, err := OpenFile(path, FileOptions{CompactBytes: 256, WithoutSync: true})
	if err != nil {
		t.Fatal(err)
	}
	load(t, file)
	const messages = 20_000
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		for sequence := uint64(1); sequence <= messages; sequence++ {
			packet := fmt.Appendf(nil, "packet %d", sequence)
			file.Record(Change{Kind: Queued, Sequence: sequence, Version: 5, Packet: packet})
			if sequence > 10 {
				file.Record(Change{Kind: Done, Sequence: sequence - 10})
			}
		}
	}()
	for running := true; running; {
		select {
		case <-recorded:
			running = false
		default:
		}
		if err := file.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	state := load(t, open(t, path))
	if len(state.Outgoing) != 10 {
		t.Fatalf("%d messages are there", len(state.Outgoing))
	}
	for _, message := range state.Outgoing {
		if string(message.Packet) != fmt.Sprint("packet ", message.Sequence) {
			t.Fatalf("number %d is %q", message.Sequence, message.Packet)
		}
	}
}

func compare(t *testing.T, got, want State) {
	t.Helper()
	for _, state := range []*State{&got, &want} {
		rank := 0
		for i := range state.Outgoing {
			if state.Outgoing[i].Release != 0 {
				rank = 0
				for _, other := range state.Outgoing {
					if other.Release != 0 && other.Release <= state.Outgoing[i].Release {
						rank++
					}
				}
				state.Outgoing[i].Packet = []byte{byte(rank)}
			}
		}
	}
	for i := range got.Outgoing {
		got.Outgoing[i].Release, want.Outgoing[i].Release = 0, 0
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}

func (l *ledger) clone() *ledger {
	other := newLedger()
	other.began, other.clientID, other.releases = l.began, l.clientID, l.releases
	for sequence, message := range l.outgoing {
		copied := *message
		other.outgoing[sequence] = &copied
	}
	for id := range l.received {
		other.received[id] = struct{}{}
	}
	return other
}

func FuzzOpening(f *testing.F) {
	var whole []byte
	for _, change := range aSession() {
		whole = appendRecord(whole, change)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, records []byte) {
		path := filepath.Join(t.TempDir(), "session")
		_ = os.WriteFile(path, append(header(), records...), 0o600)
		file, err := OpenFile(path, FileOptions{WithoutSync: true})
		if err != nil {
			t.Fatal(err)
		}
		load(t, file)
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func aSession() []Change {
	return []Change{
		{Kind: Began, ClientID: "old"},
		{Kind: Received, PacketID: 1},
		{Kind: Queued, Sequence: 1, Version: 5, Packet: []byte("one")},
		{Kind: Queued, Sequence: 2, Version: 5, Packet: []byte("two")},
		{Kind: Began, ClientID: "meter"},
		{Kind: Sent, Sequence: 1, PacketID: 6},
		{Kind: Sent, Sequence: 2, PacketID: 7},
		{Kind: Queued, Sequence: 3, Version: 4, Packet: []byte("three")},
		{Kind: Received, PacketID: 3},
		{Kind: Received, PacketID: 4},
		{Kind: Sent, Sequence: 3, PacketID: 8},
		{Kind: Unsent, Sequence: 3},
		{Kind: Released, Sequence: 2},
		{Kind: Done, Sequence: 1},
		{Kind: Completed, PacketID: 4},
		{Kind: Sent, Sequence: 3, PacketID: 9},
		{Kind: Queued, Sequence: 4, Version: 5, Packet: []byte("four")},
		{Kind: Received, PacketID: 65535},
	}
}

// open does not sync: a test reads what was written.
func open(t *testing.T, path string) *File {
	t.Helper()
	file, err := OpenFile(path, FileOptions{WithoutSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func load(t *testing.T, store Store) State {
	t.Helper()
	state, err := store.Load()
	if err != nil {
		t.Fatal(err)
	}
	return state
}
