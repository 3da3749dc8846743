package main

import (
	"math"
	"strings"
	"time"

	"tautwire.invalid/generated/contracts"
)

// The values that all drivers encode. The bytes are the same in every language.

func to[T any](value T) *T { return &value }

var (
	long = strings.Repeat("x", 200)
	at   = time.Unix(1700000000, 123456789).UTC()
	took = -1500 * time.Millisecond
	last = time.Unix(253402300799, 999999999).UTC()
)

func everything() *contracts.Everything {
	type part = contracts.EverythingPart
	return &contracts.Everything{
		PlantID: "7", ADouble: 21.5, AFloat: 0.1, AnInt32: -5, AnInt64: -9007199254740993, AUint32: math.MaxUint32,
		AUint64: math.MaxUint64, ASint32: -1, ASint64: -1099511627776, AFixed32: 1, AFixed64: 2, ASfixed32: -3, ASfixed64: -4,
		ABool: true, SomeBytes: []byte{0, 255, 16}, Unit: contracts.UnitCelsius,
		MaybeInt32: to(int32(0)), MaybeText: to(""), MaybeUnit: to(contracts.UnitBelow),
		Part:    &part{Name: long, Parts: []*part{{Name: "bolt"}, {Name: "nut"}}, Spare: &part{Name: "é\"\n"}},
		Texts:   []string{"a", "", "ü"},
		Numbers: []int32{1, -1, 300}, Doubles: []float64{0.5, -0.25}, Loose: []int64{-1, 1},
		Units:         []contracts.Unit{contracts.UnitKelvin, 9},
		Parts:         []*part{{}, {Name: "p"}},
		Counts:        map[string]int32{"a": 1, "b": -2},
		PartsByNumber: map[int32]*part{2: {Name: "two"}, 5: {}},
		ByBool:        map[bool]string{false: "no", true: "yes"},
		UnitsByNumber: map[uint64]contracts.Unit{5: contracts.UnitCelsius},
		At:            &at, Took: &took,
		Wrapped: &contracts.StringValue{Value: "w"},
		Extra: &contracts.Struct{Fields: map[string]*contracts.Value{
			"k": {Kind: contracts.ValueKindBoolValue{Value: true}},
		}},
		Moments: []time.Time{time.Unix(0, 0).UTC(), last},
		Result:  contracts.EverythingResultReplacement{Value: &part{Name: "new"}},
		Type:    "t", HasType: "c",
	}
}

func mapped() *contracts.Mapped {
	type part = contracts.MappedPart
	raw := contracts.Raw("true")
	return &contracts.Mapped{
		PlantID: "7", ADouble: 21.5, AFloat: 0.1, AnInt32: -5, AnInt64: -9007199254740993, AUint32: math.MaxUint32,
		AUint64: math.MaxUint64, ASint32: -1, ASint64: -1099511627776, AFixed32: 1, AFixed64: 2, ASfixed32: -3, ASfixed64: -4,
		ABool: true, SomeBytes: []byte{0, 255, 16}, Unit: contracts.AcmeMappedUnitCelsius,
		MaybeInt32: to(int32(0)), MaybeText: to(""), MaybeUnit: to(contracts.AcmeMappedUnitBelow),
		Part:    &part{Name: long, Parts: []*part{{Name: "bolt"}, {Name: "nut"}}, Spare: &part{Name: "é\"\n"}},
		Texts:   []string{"a", "", "ü"},
		Numbers: []int32{1, -1, 300}, Doubles: []float64{0.5, -0.25}, Loose: []int64{-1, 1},
		Units:         []contracts.AcmeMappedUnit{contracts.AcmeMappedUnitKelvin, 9},
		Parts:         []*part{{}, {Name: "p"}},
		Counts:        map[string]int32{"a": 1, "b": -2},
		PartsByNumber: map[int32]*part{2: {Name: "two"}, 5: {}},
		ByBool:        map[bool]string{false: "no", true: "yes"},
		UnitsByNumber: map[uint64]contracts.AcmeMappedUnit{5: contracts.AcmeMappedUnitCelsius},
		At:            &at, Took: &took,
		Wrapped: to("w"),
		Extra:   map[string]contracts.Raw{"k": raw},
		Moments: []time.Time{time.Unix(0, 0).UTC(), last},
		Result:  contracts.MappedResultReplacement{Value: &part{Name: "new"}},
		Type:    "t", HasType: "c",
	}
}

func packed() *contracts.Mapped {
	value := mapped()
	value.Extra["k"] = contracts.Raw{0xc3}
	return value
}

func old() *contracts.Old {
	return &contracts.Old{
		ID: "", Level: contracts.LevelHigh, Count: to(int32(0)),
		Levels: []contracts.Level{contracts.LevelLow, contracts.LevelHigh},
		Loose:  []int32{-1, 128},
		Inner:  &contracts.Inner{Data: []byte{1}},
		ByName: map[string]contracts.Level{"l": contracts.LevelLow},
	}
}

// lamp is in JSON or in MessagePack: the bytes of open values differ.
func lamp(isText bool) *contracts.Lamp {
	pair := []contracts.Raw{{0xa1, 'x'}, {1}}
	anything := contracts.Raw{0x81, 0xa4, 'd', 'e', 'e', 'p', 0x92, 1, 0xc0}
	if isText {
		pair = []contracts.Raw{contracts.Raw(`"x"`), contracts.Raw("1")}
		anything = contracts.Raw(`{"deep":[1,null]}`)
	}
	return &contracts.Lamp{
		On: true, Brightness: to(int64(80)), Warmth: to(2700.5), Colour: to("#ffaa00"), Mode: contracts.LampModeByHand,
		Scenes:     []*contracts.Scene{{Name: "dusk", After: &contracts.Scene{Name: "night\u0001\\"}, Pair: pair}},
		Grid:       [][]float64{{1, 2.5}, {3}},
		Tags:       map[string]string{"floor": "1"},
		Anything:   anything,
		FirstScene: &contracts.Scene{Name: "dawn"},
		Type:       contracts.LampTypeLamp,
	}
}

func samples() *contracts.Samples {
	return &contracts.Samples{Value: []float64{0.5, -7, 1e300}}
}
