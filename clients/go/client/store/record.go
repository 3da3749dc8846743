package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// FORMAT.md describes the format.
const (
	headerBytes       = 16
	formatVersion     = 1
	frameBytes        = 8
	minBodyBytes      = 12
	maxRemainingBytes = 268_435_455
	// A PUBLISH packet of the maximum size has a fixed header of 5 bytes.
	maxBodyBytes = minBodyBytes + 5 + maxRemainingBytes
)

var (
	magic      = []byte("TWSTORE\n")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errTorn    = errors.New("a record is not whole")
)

func header() []byte {
	header := binary.LittleEndian.AppendUint32(append([]byte(nil), magic...), formatVersion)
	return binary.LittleEndian.AppendUint32(header, crc32.Checksum(header, castagnoli))
}

func appendRecord(to []byte, change Change) []byte {
	start := len(to)
	to = append(to, make([]byte, frameBytes)...)
	to = append(to, byte(change.Kind), change.Version)
	to = binary.LittleEndian.AppendUint16(to, change.PacketID)
	to = binary.LittleEndian.AppendUint64(to, change.Sequence)
	if change.Kind == Began {
		to = append(to, change.ClientID...)
	} else {
		to = append(to, change.Packet...)
	}
	record := to[start:]
	binary.LittleEndian.PutUint32(record, uint32(len(record)-frameBytes))
	binary.LittleEndian.PutUint32(record[4:], checksum(record))
	return to
}

func checksum(record []byte) uint32 {
	return crc32.Update(crc32.Checksum(record[:4], castagnoli), castagnoli, record[frameBytes:])
}

// recordBytes returns the length of the record with this frame.
func recordBytes(frame []byte) (int, error) {
	length := binary.LittleEndian.Uint32(frame)
	if length < minBodyBytes || length > maxBodyBytes {
		return 0, errTorn
	}
	return frameBytes + int(length), nil
}

// parseRecord parses a complete record. The change has a view of its packet.
func parseRecord(record []byte) (Change, error) {
	if binary.LittleEndian.Uint32(record[4:]) != checksum(record) {
		return Change{}, errTorn
	}
	body := record[frameBytes:]
	change := Change{
		Kind: Kind(body[0]), Version: body[1],
		PacketID: binary.LittleEndian.Uint16(body[2:]), Sequence: binary.LittleEndian.Uint64(body[4:]),
	}
	switch change.Kind {
	case Began:
		change.ClientID = string(body[minBodyBytes:])
	case Queued:
		change.Packet = body[minBodyBytes:]
	}
	return change, nil
}
