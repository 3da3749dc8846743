package store

import "sync"

// Memory stores a session in memory, for one client after another.
type Memory struct {
	mutex  sync.Mutex
	ledger *ledger
	open   bool
}

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{ledger: newLedger()} }

// Load returns the state, or [ErrInUse] while another client has it open.
func (m *Memory) Load() (State, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.open {
		return State{}, ErrInUse
	}
	m.open = true
	return m.ledger.state(), nil
}

// Record adds a change.
func (m *Memory) Record(change Change) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	_ = m.ledger.apply(change)
}

// Sync has nothing to wait for.
func (m *Memory) Sync() error { return nil }

// Close lets another client load the store.
func (m *Memory) Close() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.open = false
	return nil
}
