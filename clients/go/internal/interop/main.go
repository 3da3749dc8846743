// Command interop tests a broker with the client of this module, and the client with a broker. See --list for the cases.
//
//	interop HOST PORT [CASE…]
//	interop --list
package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/tautwire/tautwire/clients/go/packets"
)

// testCase is one named test case.
type testCase struct {
	name string
	run  func(*run)
}

// cases are the same in both versions, except for the last.
func cases() []testCase {
	var all []testCase
	for _, version := range []packets.Version{packets.V311, packets.V5} {
		prefix := map[packets.Version]string{packets.V311: "v3_", packets.V5: "v5_"}[version]
		add := func(name string, prove func(*run)) {
			all = append(all, testCase{prefix + name, func(r *run) {
				r.version = version
				prove(r)
			}})
		}
		add("connect", connects)
		for qos := range packets.QoS(3) {
			add(fmt.Sprintf("qos%d", qos), func(r *run) { roundTrip(r, qos) })
		}
		add("retained", retained)
		add("will", will)
		add("reconnect", reconnects)
		if version == packets.V5 {
			add("properties", properties)
		}
	}
	return all
}

func main() { os.Exit(drive(os.Args[1:], cases())) }

func drive(arguments []string, all []testCase) int {
	if len(arguments) == 1 && arguments[0] == "--list" {
		for _, each := range all {
			fmt.Println(each.name)
		}
		return 0
	}
	if len(arguments) < 2 {
		fmt.Fprintln(os.Stderr, "usage: interop HOST PORT [CASE…] | --list")
		return 2
	}
	host, port, wanted := arguments[0], arguments[1], arguments[2:]
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		fmt.Fprintf(os.Stderr, "invalid port %q\n", port)
		return 2
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(c testCase) bool { return c.name == name }) {
			fmt.Fprintf(os.Stderr, "unknown case %q\n", name)
			return 2
		}
	}
	failed := 0
	for _, each := range all {
		if len(wanted) > 0 && !slices.Contains(wanted, each.name) {
			continue
		}
		if err := attempt(each, host, port); err != nil {
			failed++
			fmt.Printf("FAIL %s: %v\n", each.name, err)
		} else {
			fmt.Printf("ok %s\n", each.name)
		}
	}
	return min(failed, 1)
}
